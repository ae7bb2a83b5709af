import { Input, Table } from "@mantine/core";
import type { AxisEntry } from "../../api/types";
import type { Errors } from "../../form/errors";
import { ObjectFields } from "../../form/SchemaField";
import { isObject, type JsonSchema } from "../../form/schema";
import { axisOf, OPTIONS_OF, refusedOption, type Value, type WithOptions } from "../../lib/overrides";

interface Props {
  choice: WithOptions;
  /** What is chosen. */
  value: Value;
  schema: JsonSchema;
  options: Record<string, unknown>;
  columns: number;
  /** Of the layer. */
  errors: Errors;
  onChange: (options: Record<string, unknown>) => void;
}

/** The options of one layer's codec, or of what happens to its activations, in a line of their own below it. */
export function PlanEditorOptions({ choice, value, schema, options, columns, errors, onChange }: Props) {
  const path = OPTIONS_OF[choice];
  const own = errors.map((error) => ({ ...error, field: `${path}.${refusedOption(error)}` }));
  return (
    <Table.Tr>
      <Table.Td colSpan={columns}>
        <Input.Wrapper label={`Options of ${value}`} maw="min(640px, calc(100vw - 80px))" pb="xs">
          <ObjectFields
            schema={schema}
            root={schema}
            path={path}
            value={options}
            errors={own}
            onChange={(changed) => onChange(isObject(changed) ? changed : {})}
          />
        </Input.Wrapper>
      </Table.Td>
    </Table.Tr>
  );
}

/** The schema of a value's options; undefined where it has none. */
export function optionsSchema(choice: WithOptions, value: Value, axes: AxisEntry[]): JsonSchema | undefined {
  const values = axes.find((axis) => axis.name === axisOf(choice))?.values ?? [];
  const schema = values.find((entry) => entry.name === value)?.options_schema as JsonSchema | undefined;
  return Object.keys(schema?.properties ?? {}).length > 0 ? schema : undefined;
}
