// The part of JSON schema that pydantic writes for the engine's dataclasses, read for a form. No React here.

export interface JsonSchema {
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  $ref?: string;
  $defs?: Record<string, JsonSchema>;
  anyOf?: JsonSchema[];
  allOf?: JsonSchema[];
  properties?: Record<string, JsonSchema>;
  additionalProperties?: boolean | JsonSchema;
  required?: string[];
  items?: JsonSchema;
}

export type Kind = "choice" | "boolean" | "integer" | "number" | "text" | "object" | "map" | "list" | "any";

/** One field, ready to be drawn. */
export interface Field {
  kind: Kind;
  /** The schema behind references and "or null". */
  schema: JsonSchema;
  description: string;
  default: unknown;
  /** Whether it may be left empty. */
  nullable: boolean;
  /** What the service is told where it is left empty: null, or the one word that the schema allows beside a number. */
  empty: unknown;
}

/** Follow references and unwrap "or null"; what stands beside a reference (default, description) wins. */
export function resolve(schema: JsonSchema, root: JsonSchema): Field {
  let current = schema;
  let nullable = false;
  let empty: unknown = null;
  for (let depth = 0; depth < 16; depth += 1) {
    const variants = current.anyOf ?? current.allOf;
    if (current.$ref !== undefined) {
      const name = current.$ref.replace("#/$defs/", "");
      const target = root.$defs?.[name];
      if (target === undefined)
        throw new Error(`The schema refers to ${current.$ref}, which it does not define`);
      const { $ref: _, ...beside } = current;
      current = { ...target, ...beside };
    } else if (variants !== undefined) {
      const real = variants.filter((variant) => variant.type !== "null" && variant.const === undefined);
      nullable ||= real.length < variants.length;
      if (real.length !== 1) break;
      empty = variants.find((variant) => variant.const !== undefined)?.const ?? null;
      const { anyOf: _, allOf: __, ...beside } = current;
      current = { ...real[0], ...beside };
    } else break;
  }
  return {
    kind: kindOf(current),
    schema: current,
    description: current.description ?? "",
    default: current.default,
    nullable,
    empty,
  };
}

function kindOf(schema: JsonSchema): Kind {
  if (schema.enum !== undefined) return "choice";
  switch (schema.type) {
    case "boolean":
    case "integer":
    case "number":
      return schema.type;
    case "string":
      return "text";
    case "array":
      return "list";
    case "object":
      return schema.properties ? "object" : "map";
    default:
      return "any";
  }
}

/** An object's schema whose field takes one of these `values`: the service knows them, and its schema only that they are
 * text. While they are unknown it stays text. */
export function withChoices(
  schema: JsonSchema,
  root: JsonSchema,
  name: string,
  values: string[],
): JsonSchema {
  const found = resolve(schema, root).schema;
  const property = found.properties?.[name];
  if (property === undefined || values.length === 0) return schema;
  return { ...found, properties: { ...found.properties, [name]: { ...property, enum: values } } };
}

/** The value that a form starts with: defaults, empty text for what is required, null for what may be empty. */
export function initialValue(schema: JsonSchema, root: JsonSchema): unknown {
  const field = resolve(schema, root);
  if (field.kind === "object") {
    const given = (field.default ?? {}) as Record<string, unknown>;
    const entries = Object.entries(field.schema.properties ?? {});
    return Object.fromEntries(
      entries.map(([name, property]) => [name, name in given ? given[name] : initialValue(property, root)]),
    );
  }
  if (field.default !== undefined) return structuredClone(field.default);
  if (field.nullable) return field.empty;
  return {
    choice: field.schema.enum?.[0],
    boolean: false,
    integer: 0,
    number: 0,
    text: "",
    map: {},
    list: [],
    any: null,
  }[field.kind];
}

/** Lay what is known over a form's value. What the schema does not have stays: the service says what is wrong with it. */
export function fill(base: unknown, known: unknown): unknown {
  if (!isObject(base) || !isObject(known)) return known === undefined ? base : structuredClone(known);
  // A map (no fields of its own) is taken whole.
  if (Object.keys(base).length === 0) return structuredClone(known);
  const laid = Object.entries(base).map(([name, value]) => [name, fill(value, known[name])]);
  return { ...structuredClone(known), ...Object.fromEntries(laid) };
}

/** `value` with the field at a dotted path replaced. */
export function setAt(value: unknown, path: string, entry: unknown): unknown {
  const [first = "", ...rest] = path.split(".");
  if (Array.isArray(value)) {
    return value.map((item, index) =>
      String(index) === first ? (rest.length ? setAt(item, rest.join("."), entry) : entry) : item,
    );
  }
  const base = isObject(value) ? value : {};
  return { ...base, [first]: rest.length ? setAt(base[first], rest.join("."), entry) : entry };
}

/** Whether an object with this schema and value has anything to show. */
export function hasFields(schema: JsonSchema, value: unknown): boolean {
  return Object.keys({ ...schema.properties, ...(isObject(value) ? value : {}) }).length > 0;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether nothing is in any of its fields: then an object that may be left out is. */
export function isEmptyObject(value: unknown): boolean {
  return isObject(value) && Object.values(value).every((entry) => entry === null || entry === "");
}
