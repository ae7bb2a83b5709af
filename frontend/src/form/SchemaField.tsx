import { Checkbox, Input, NumberInput, Select, SimpleGrid, TextInput } from "@mantine/core";
import type { ReactNode } from "react";
import { Marked } from "../components/Marked";
import { humanize } from "../lib/format";
import { type Errors, errorWithin } from "./errors";
import { ListField } from "./ListField";
import { MapField } from "./MapField";
import { Misfits } from "./Misfits";
import { isEmptyObject, isObject, type JsonSchema, resolve, setAt } from "./schema";

export interface FieldProps {
  schema: JsonSchema;
  /** Where references point into. */
  root: JsonSchema;
  /** Dotted path in the specification: the service names it in its errors. */
  path: string;
  value: unknown;
  errors: Errors;
  onChange: (value: unknown) => void;
  /** In place of the field's own name. */
  label?: string;
}

/** One field of a schema, by its kind. Objects lay their fields out below each other. */
export function SchemaField(props: FieldProps) {
  const { schema, root, path, errors, onChange } = props;
  const field = resolve(schema, root);
  // What a specification leaves out keeps its default: show it.
  const value = props.value === undefined ? field.default : props.value;
  const error = errorWithin(errors, path);
  const common = {
    label: props.label ?? humanize(path.split(".").at(-1) ?? path),
    description: <Described text={field.description} />,
    error: error && <Marked text={error} />,
    "data-testid": `field-${path}`,
  };
  switch (field.kind) {
    case "object":
      return field.nullable ? (
        <Input.Wrapper mt="sm" label={common.label} description={common.description}>
          <ObjectFields
            {...props}
            onChange={(entry) => onChange(isEmptyObject(entry) ? field.empty : entry)}
          />
        </Input.Wrapper>
      ) : (
        <ObjectFields {...props} />
      );
    case "map":
      return <MapField {...common} value={isObject(value) ? value : {}} onChange={onChange} />;
    case "list":
      return (
        <ListField
          {...props}
          items={field.schema.items ?? {}}
          label={common.label}
          description={common.description}
        />
      );
    case "boolean":
      return (
        <Checkbox
          {...common}
          checked={value === true}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />
      );
    case "choice":
      return (
        <Select
          {...common}
          data={(field.schema.enum ?? []).map(String)}
          value={value === null || value === undefined ? null : String(value)}
          clearable={field.nullable}
          allowDeselect={field.nullable}
          onChange={onChange}
        />
      );
    case "integer":
    case "number":
      return (
        <NumberInput
          {...common}
          value={typeof value === "number" ? value : ""}
          placeholder={field.nullable ? String(field.empty ?? "none") : undefined}
          allowDecimal={field.kind === "number"}
          decimalScale={12}
          onChange={(entry) => onChange(typeof entry === "number" ? entry : field.empty)}
        />
      );
    default:
      return (
        <TextInput
          {...common}
          value={
            typeof value === "string"
              ? value
              : value === null || value === undefined
                ? ""
                : JSON.stringify(value)
          }
          placeholder={field.nullable ? "none" : undefined}
          onChange={(event) =>
            onChange(event.currentTarget.value === "" && field.nullable ? null : event.currentTarget.value)
          }
        />
      );
  }
}

/** The fields of an object in two columns; wide ones (maps, lists) take a row each. */
export function ObjectFields({ schema, root, path, value, errors, onChange }: FieldProps) {
  const { properties = {} } = resolve(schema, root).schema;
  const entries = Object.entries(properties);
  const wide = (property: JsonSchema) => ["map", "list", "object"].includes(resolve(property, root).kind);
  const field = ([name, property]: [string, JsonSchema]): ReactNode => (
    <SchemaField
      key={name}
      schema={property}
      root={root}
      path={path ? `${path}.${name}` : name}
      value={isObject(value) ? value[name] : undefined}
      errors={errors}
      onChange={(entry) => onChange(setAt(value, name, entry))}
    />
  );
  return (
    <>
      <Misfits
        path={path}
        value={value}
        known={Object.keys(properties)}
        errors={errors}
        onChange={onChange}
      />
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm" verticalSpacing="sm" style={{ alignItems: "end" }}>
        {entries.filter(([, property]) => !wide(property)).map(field)}
      </SimpleGrid>
      {entries.filter(([, property]) => wide(property)).map(field)}
    </>
  );
}

/** A description with `code` as the engine's docstrings mark it. What is null in JSON is an empty field here. */
export function Described({ text }: { text: string }) {
  return <Marked text={text.replaceAll("\n", " ").replace(/\bNull:/g, "Empty:")} />;
}
