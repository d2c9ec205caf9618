/** Says in one sentence what is wrong with JSON from outside: a document, a configuration, a state. */
import { z } from "zod";

/** A zod issue, with the refused value: it is there when the schema was asked to report its input. */
export type Issue = z.core.$ZodIssue;

const kinds: Readonly<Record<string, string>> = {
  string: "a text",
  array: "a list",
  object: "an object",
  record: "an object",
  boolean: "true or false",
  int: "a whole number",
  number: "a whole number",
};

/** Longer values are cut: a sentence has to stay one, whatever was read. */
const longestValue = 80;

/** @param issues what the schema found */
export function sentence(schema: z.ZodObject, issues: readonly Issue[]): string {
  // A mistyped name makes two issues, a field unknown and a field missing: the first of them is the cause.
  const issue = issues.find(({ code }) => code === "unrecognized_keys") ?? issues[0];
  if (!issue) {
    throw new RangeError("Cannot say what is wrong: no issue was given");
  }
  const field = issue.path.map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`)).join("");
  return field === "" ? problem(issue, schema) : `field "${field.slice(1)}": ${problem(issue, schema)}`;
}

/** A value as it stands in JSON. */
export function show(value: unknown): string {
  const json = JSON.stringify(value) ?? String(value);
  return json.length <= longestValue ? json : `${json.slice(0, longestValue)}…`;
}

/** @throws SyntaxError whose message is a problem to be put after the text's source and a colon */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new SyntaxError(text === "" ? "it is empty" : `it is not JSON, ${(error as Error).message}`);
  }
}

function problem(issue: Issue, schema: z.ZodObject): string {
  if (issue.code === "unrecognized_keys") {
    return `unknown field ${list(issue.keys)}, allowed are ${list(fieldsAt(schema, issue))}`;
  }
  if (issue.input === undefined && issue.code !== "custom") {
    return "it is missing";
  }
  switch (issue.code) {
    case "invalid_type":
      return `${show(issue.input)} is not ${kinds[issue.expected] ?? issue.expected}`;
    case "invalid_value":
      return `${show(issue.input)} is not supported, allowed ${issue.values.length === 1 ? "is" : "are"} ${list(issue.values)}`;
    case "invalid_format":
      return `${show(issue.input)} is not of the format "${issue.format}"`;
    case "too_small":
      return isMeasured(issue)
        ? `${show(issue.input)} is too short, lengths from ${issue.minimum} on are allowed`
        : `${show(issue.input)} is too small, numbers from ${issue.minimum} on are allowed`;
    case "too_big":
      return isMeasured(issue)
        ? `${show(issue.input)} is too long, lengths up to ${issue.maximum} are allowed`
        : `${show(issue.input)} is too big, numbers up to ${issue.maximum} are allowed`;
    case "invalid_union":
      return unionProblem(issue);
    case "invalid_key":
      return `its name ${problem(issue.issues[0] as Issue, schema)}`;
    default:
      return issue.message;
  }
}

/** Of objects that a field of theirs tells apart. */
function unionProblem(issue: z.core.$ZodIssueInvalidUnion): string {
  const { discriminator, options } = issue as { discriminator?: string; options?: readonly unknown[] };
  const value = (issue.input as Record<string, unknown>)[discriminator ?? ""];
  return value === undefined ? "it is missing" : `${show(value)} is not supported, allowed are ${list(options ?? [])}`;
}

/** A text or a list, which is as large as it is long. */
function isMeasured({ origin }: z.core.$ZodIssueTooSmall | z.core.$ZodIssueTooBig): boolean {
  return origin === "string" || origin === "array";
}

/** The names of the fields that the object at this place may have. */
function fieldsAt(schema: z.ZodObject, { path, input }: Issue): string[] {
  const found = path.reduce<z.ZodType>((outer, part) => bare(inside(outer, part)), schema);
  return Object.keys((found instanceof z.ZodDiscriminatedUnion ? chosen(found, input) : (found as z.ZodObject)).shape);
}

function chosen({ def, options }: z.ZodDiscriminatedUnion, input: unknown): z.ZodObject {
  const value = (input as Record<string, unknown>)[def.discriminator];
  const objects = options as z.ZodObject[];
  return objects.find(({ shape }) => shape[def.discriminator]?.safeParse(value).success) as z.ZodObject;
}

function inside(outer: z.ZodType, part: PropertyKey): z.ZodType {
  return (outer instanceof z.ZodArray ? outer.element : (outer as z.ZodObject).shape[String(part)]) as z.ZodType;
}

/** Without what only says which value stands in for a missing one, or that nobody changes it. */
function bare(schema: z.ZodType): z.ZodType {
  const isWrapped =
    schema instanceof z.ZodPrefault || schema instanceof z.ZodDefault || schema instanceof z.ZodReadonly;
  return isWrapped ? bare(schema.unwrap() as z.ZodType) : schema;
}

function list(values: readonly unknown[]): string {
  return values.map(show).join(", ");
}
