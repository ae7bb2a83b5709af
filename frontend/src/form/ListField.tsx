import { Button, Group, Input, Paper, Stack } from "@mantine/core";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { Marked } from "../components/Marked";
import { singular } from "../lib/format";
import { errorAt } from "./errors";
import { type FieldProps, SchemaField } from "./SchemaField";
import { initialValue, type JsonSchema } from "./schema";

interface Props extends FieldProps {
  items: JsonSchema;
  label: string;
  description: ReactNode;
}

/** A list of values or of objects, to which one adds and from which one removes. */
export function ListField({ items, label, description, root, path, value, errors, onChange }: Props) {
  const entries = Array.isArray(value) ? value : [];
  const error = errorAt(errors, path);
  return (
    <Input.Wrapper
      label={label}
      description={description}
      error={error && <Marked text={error} />}
      mt="sm"
      data-testid={`field-${path}`}
    >
      <Stack gap="xs" mt={4}>
        {entries.map((entry, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: entries have no other identity
          <Paper key={index} p="xs">
            <SchemaField
              schema={items}
              root={root}
              path={`${path}.${index}`}
              label={`${singular(label)} ${index}`}
              value={entry}
              errors={errors}
              onChange={(changed) => onChange(entries.map((old, at) => (at === index ? changed : old)))}
            />
            <Group justify="flex-end">
              <Button
                size="compact-xs"
                variant="subtle"
                color="gray"
                leftSection={<IconTrash size={14} />}
                onClick={() => onChange(entries.filter((_, at) => at !== index))}
              >
                Remove
              </Button>
            </Group>
          </Paper>
        ))}
        <Button
          size="compact-xs"
          variant="subtle"
          leftSection={<IconPlus size={14} />}
          style={{ alignSelf: "flex-start" }}
          onClick={() => onChange([...entries, initialValue(items, root)])}
        >
          Add
        </Button>
      </Stack>
    </Input.Wrapper>
  );
}
