/** One sentence for a value that a schema refused. */
import type { z } from "zod";

/** Longer values are cut: a sentence stays one, and what may be secret mostly out of it. */
const longestValue = 80;

/**
 * Describes the first thing wrong: `field "mtu" is "big", allowed is a number of bytes`. What is allowed comes from the
 * description of the top-level field's schema.
 */
export function describeIssue(schema: z.ZodObject, value: unknown, error: z.ZodError): string {
  const path = error.issues[0]?.path ?? [];
  const [field] = path;
  if (field === undefined) {
    return `${value === null ? "null" : Array.isArray(value) ? "a list" : typeof value}, allowed is a JSON object`;
  }
  const allowed = schema.shape[String(field)]?.description ?? error.issues[0]?.message;
  return `field "${path.join(".")}" is ${quote(at(value, path))}, allowed is ${allowed}`;
}

function at(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce((inner, key) => (inner as Readonly<Record<PropertyKey, unknown>> | undefined)?.[key], value);
}

function quote(value: unknown): string {
  const text = value === undefined ? "missing" : JSON.stringify(value);
  return text.length > longestValue ? `${text.slice(0, longestValue)}…` : text;
}
