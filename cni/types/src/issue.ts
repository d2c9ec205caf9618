/** One sentence for a value that a schema refused. */
import { z } from "zod";
import { withoutNulls } from "./absent.ts";
import { CniCode, CniError } from "./error.ts";
import { cut, show } from "./show.ts";

/**
 * Checks a value from outside. An optional field that is null counts as absent.
 *
 * @param what the value's name in the error's sentence, such as "the network configuration"
 * @throws CniError with `InvalidConfiguration`
 */
export function check<Schema extends z.ZodObject>(what: string, schema: Schema, value: unknown): z.infer<Schema> {
  const { success, data, error } = schema.safeParse(withoutNulls(schema, value));
  if (!success) {
    throw new CniError(CniCode.InvalidConfiguration, `Cannot use ${what}: ${describeIssue(schema, value, error)}`);
  }
  return data;
}

/**
 * Describes the first thing wrong: `field "mtu" is "big", allowed is a number of bytes`. What is allowed is the message of a
 * refinement, else the description that is nearest to the field.
 */
export function describeIssue(schema: z.ZodObject, value: unknown, error: z.ZodError): string {
  const [issue] = error.issues;
  const path = issue?.path ?? [];
  if (path.length === 0) {
    return `${value === null ? "null" : Array.isArray(value) ? "a list" : `a ${typeof value}`}, allowed is a JSON object`;
  }
  const allowed = issue?.code === "custom" ? issue.message : (descriptionAt(schema, path) ?? issue?.message);
  return `field "${cut(path.join("."))}" is ${show(at(value, path))}, allowed is ${allowed}`;
}

function at(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce((inner, key) => (inner as Readonly<Record<PropertyKey, unknown>> | undefined)?.[key], value);
}

/** What is described nearest to the field counts, so that a list's description is also that of its elements. */
function descriptionAt(schema: unknown, path: readonly PropertyKey[]): string | undefined {
  return schema instanceof z.ZodType ? (descriptionWithin(schema, path) ?? schema.description) : undefined;
}

function descriptionWithin(schema: z.ZodType, path: readonly PropertyKey[]): string | undefined {
  const [key, ...rest] = path;
  if (schema instanceof z.ZodObject) {
    return key === undefined ? undefined : descriptionAt(schema.shape[String(key)], rest);
  }
  if (schema instanceof z.ZodArray) {
    return key === undefined ? undefined : descriptionAt(schema.element, rest);
  }
  // Optional fields and fields with a default
  return "unwrap" in schema && typeof schema.unwrap === "function" ? descriptionAt(schema.unwrap(), path) : undefined;
}
