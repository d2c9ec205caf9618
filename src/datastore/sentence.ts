/** Says in one sentence what is wrong with a document. */
import type { z } from "zod";

/** A zod issue, with the refused value: it is there when the schema was asked to report its input. */
export type Issue = z.core.$ZodIssue;

const kinds: Readonly<Record<string, string>> = {
  string: "a text",
  array: "a list",
  object: "an object",
  int: "a whole number",
  number: "a whole number",
};

/** Longer values are cut: a sentence has to stay one, whatever was read. */
const longestValue = 80;

/** `fields`: what the document may have. */
export function sentence(issues: readonly Issue[], fields: readonly string[]): string {
  // A mistyped name makes two issues, a field unknown and a field missing: the first of them is the cause.
  const issue = issues.find(({ code }) => code === "unrecognized_keys") ?? issues[0];
  if (!issue) {
    throw new RangeError("Cannot say what is wrong: no issue was given");
  }
  const field = issue.path.map((part) => (typeof part === "number" ? `[${part}]` : String(part))).join("");
  return field === "" ? problem(issue, fields) : `field "${field}": ${problem(issue, fields)}`;
}

/** A value as it stands in JSON. */
export function show(value: unknown): string {
  const json = JSON.stringify(value) ?? String(value);
  return json.length <= longestValue ? json : `${json.slice(0, longestValue)}…`;
}

function problem(issue: Issue, fields: readonly string[]): string {
  if (issue.code === "unrecognized_keys") {
    const allowed = fields.map((name) => `"${name}"`).join(", ");
    return `unknown field ${issue.keys.map(show).join(", ")}, allowed are ${allowed}`;
  }
  if (issue.input === undefined && issue.code !== "custom") {
    return "it is missing";
  }
  switch (issue.code) {
    case "invalid_type":
      return `${show(issue.input)} is not ${kinds[issue.expected] ?? issue.expected}`;
    case "invalid_value":
      return `${show(issue.input)} is not supported in this release, allowed is ${issue.values.map(show).join(", ")}`;
    case "too_small":
      return `${show(issue.input)} is too small, numbers from ${issue.minimum} on are allowed`;
    case "too_big":
      return `${show(issue.input)} is too big, numbers up to ${issue.maximum} are allowed`;
    default:
      return issue.message;
  }
}
