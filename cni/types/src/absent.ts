/** Go's encoders write null for what was never filled in: a list, an object, a pointer. */
import { z } from "zod";

/**
 * The value without the fields that are null where the schema can do without them. All others stay as they are: a field
 * that the schema does not know is somebody else's, who may tell null from absent.
 */
export function withoutNulls(schema: unknown, value: unknown): unknown {
  const inner = unwrapped(schema);
  if (inner instanceof z.ZodArray && Array.isArray(value)) {
    return value.map((element) => withoutNulls(inner.element, element));
  }
  if (!(inner instanceof z.ZodObject) || typeof value !== "object" || value === null || Array.isArray(value)) {
    return value;
  }
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name, field]) => field !== null || !isOptional(inner.shape[name]))
      .map(([name, field]) => [name, withoutNulls(inner.shape[name], field)]),
  );
}

function isOptional(schema: unknown): boolean {
  return schema instanceof z.ZodType && schema._zod.optin !== undefined;
}

/** Without what only says that the field may be absent, or what stands in for it then. */
function unwrapped(schema: unknown): unknown {
  if (!(schema instanceof z.ZodType) || schema instanceof z.ZodArray) {
    return schema; // a list has unwrap() too, for its elements
  }
  return "unwrap" in schema && typeof schema.unwrap === "function" ? unwrapped(schema.unwrap()) : schema;
}
