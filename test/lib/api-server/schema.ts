/** What an API server does with the structural schema of a custom resource: all but the CEL rules. */

export interface Rule {
  readonly rule: string;
  readonly message: string;
}

/** With the names that stand in the declaration. */
export interface Schema {
  readonly type: "object" | "array" | "string" | "integer" | "boolean";
  readonly format?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema;
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly maxProperties?: number;
  readonly "x-kubernetes-validations"?: readonly Rule[];
  readonly "x-kubernetes-list-type"?: string;
  readonly "x-kubernetes-list-map-keys"?: readonly string[];
}

/** A copy in which every field that is missing and has a default has it. */
export function withDefaults(schema: Schema, value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map((item) => (schema.items ? withDefaults(schema.items, item) : item));
  }
  if (!isObject(value)) {
    return value;
  }
  const filled = Object.entries(value).map(([name, field]) => {
    const inner = fieldSchema(schema, name);
    return [name, inner ? withDefaults(inner, field) : field];
  });
  const missing = Object.entries(schema.properties ?? {})
    .filter(([name, inner]) => inner.default !== undefined && value[name] === undefined)
    .map(([name, inner]) => [name, withDefaults(inner, inner.default)]);
  return Object.fromEntries([...filled, ...missing]);
}

/** Paths of the fields that the schema does not know: they are removed, or refused where the client asks for that. */
export function unknownFields(schema: Schema, value: unknown, path = ""): string[] {
  if (Array.isArray(value)) {
    return value.flatMap((item, index) => (schema.items ? unknownFields(schema.items, item, `${path}[${index}]`) : []));
  }
  if (!isObject(value) || !(schema.properties || schema.additionalProperties)) {
    return [];
  }
  return Object.entries(value).flatMap(([name, field]) => {
    const inner = fieldSchema(schema, name);
    return inner ? unknownFields(inner, field, `${path}.${name}`) : [`${path}.${name}`];
  });
}

/** A copy without the fields that the schema does not know. */
export function pruned(schema: Schema, value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map((item) => (schema.items ? pruned(schema.items, item) : item));
  }
  if (!isObject(value) || !(schema.properties || schema.additionalProperties)) {
    return value;
  }
  const known = Object.entries(value).flatMap(([name, field]) => {
    const inner = fieldSchema(schema, name);
    return inner ? [[name, pruned(inner, field)]] : [];
  });
  return Object.fromEntries(known);
}

/** What is wrong with a value, one sentence each. */
export function problems(schema: Schema, value: unknown, path = ""): string[] {
  if (!isOfType(schema.type, value)) {
    return [`${path}: must be of type ${schema.type}`];
  }
  const own = limits
    .filter(([name, isWithin]) => schema[name] !== undefined && !isWithin(value as never, schema[name] as never))
    .map(([name]) => `${path}: ${JSON.stringify(value)} does not meet ${name} ${JSON.stringify(schema[name])}`);
  if (Array.isArray(value)) {
    const { items } = schema;
    return [...own, ...value.flatMap((item, index) => (items ? problems(items, item, `${path}[${index}]`) : []))];
  }
  if (isObject(value)) {
    const inner = Object.entries(value).flatMap(([name, field]) => {
      const known = fieldSchema(schema, name);
      return known ? problems(known, field, `${path}.${name}`) : [];
    });
    return [...own, ...inner];
  }
  return own;
}

/** The schema itself and all in it, with the paths that they stand at; "[]" stands for each item, "{}" for each value. */
export function schemasIn(schema: Schema, path = ""): { readonly path: string; readonly schema: Schema }[] {
  const { items, additionalProperties, properties = {} } = schema;
  return [
    { path, schema },
    ...(items ? schemasIn(items, `${path}[]`) : []),
    ...(additionalProperties ? schemasIn(additionalProperties, `${path}{}`) : []),
    ...Object.entries(properties).flatMap(([name, inner]) => schemasIn(inner, `${path}.${name}`)),
  ];
}

export function rulesOf(schema: Schema): (Rule & { readonly path: string })[] {
  return schemasIn(schema).flatMap(({ path, schema: { "x-kubernetes-validations": rules = [] } }) =>
    rules.map((rule) => ({ ...rule, path })),
  );
}

type Limit =
  | "required"
  | "enum"
  | "pattern"
  | "minimum"
  | "maximum"
  | "minLength"
  | "maxLength"
  | "minItems"
  | "maxItems"
  | "maxProperties";

const limits: readonly [Limit, (value: never, limit: never) => boolean][] = [
  ["required", (value: object, names: readonly string[]) => names.every((name) => name in value)],
  ["enum", (value: unknown, allowed: readonly unknown[]) => allowed.includes(value)],
  ["pattern", (value: string, pattern: string) => new RegExp(pattern, "u").test(value)],
  ["minimum", (value: number, limit: number) => value >= limit],
  ["maximum", (value: number, limit: number) => value <= limit],
  ["minLength", (value: string, limit: number) => [...value].length >= limit],
  ["maxLength", (value: string, limit: number) => [...value].length <= limit],
  ["minItems", (value: unknown[], limit: number) => value.length >= limit],
  ["maxItems", (value: unknown[], limit: number) => value.length <= limit],
  ["maxProperties", (value: object, limit: number) => Object.keys(value).length <= limit],
];

function isOfType(type: string, value: unknown): boolean {
  switch (type) {
    case "object":
      return isObject(value);
    case "array":
      return Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function fieldSchema(schema: Schema, name: string): Schema | undefined {
  // Not a plain look-up: a field may have the name of something that every object has.
  const own = schema.properties && Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined;
  return own ?? schema.additionalProperties;
}
