/** Values from outside as they appear in a sentence: short, on one line, and never a whole object, which may hold tokens. */

/** In characters. */
const longest = 80;

/** Strings are quoted and their control characters escaped; of lists and objects only the empty ones are shown. */
export function show(value: unknown): string {
  if (typeof value === "string") {
    return JSON.stringify(cut(value));
  }
  if (value === undefined) {
    return "missing";
  }
  if (Array.isArray(value)) {
    return value.length === 0 ? "[]" : "a list";
  }
  if (typeof value === "object" && value !== null) {
    return Object.keys(value).length === 0 ? "{}" : "an object";
  }
  return String(value);
}

export function cut(text: string): string {
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}
