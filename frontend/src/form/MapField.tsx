import { ActionIcon, Button, Group, Input, Stack, TextInput } from "@mantine/core";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";

interface Props {
  label: string;
  description: ReactNode;
  error?: ReactNode;
  value: Record<string, unknown>;
  onChange: (value: Record<string, unknown>) => void;
  "data-testid": string;
}

/** Free options: names and values. A value that reads as JSON is taken so, anything else as text. */
export function MapField({ label, description, error, value, onChange, ...rest }: Props) {
  // Rows live here while they are typed: two rows may share a name for a moment, and a name may be empty.
  const [rows, setRows] = useState(() =>
    Object.entries(value).map(([name, entry]) => ({ name, text: show(entry) })),
  );
  const update = (changed: typeof rows) => {
    setRows(changed);
    onChange(
      Object.fromEntries(
        changed.filter((row) => row.name.trim()).map((row) => [row.name.trim(), read(row.text)]),
      ),
    );
  };
  const edit = (index: number, change: Partial<(typeof rows)[number]>) =>
    update(rows.map((row, at) => (at === index ? { ...row, ...change } : row)));
  return (
    <Input.Wrapper label={label} description={description} error={error} mt="sm" {...rest}>
      <Stack gap={6} mt={4}>
        {rows.map((row, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: rows have no other identity while their names are typed
          <Group key={index} gap={6} wrap="nowrap">
            <TextInput
              size="xs"
              placeholder="name"
              aria-label={`${label}: name ${index + 1}`}
              value={row.name}
              style={{ flex: 1 }}
              onChange={(event) => edit(index, { name: event.currentTarget.value })}
            />
            <TextInput
              size="xs"
              placeholder="value"
              aria-label={`${label}: value ${index + 1}`}
              value={row.text}
              style={{ flex: 1 }}
              onChange={(event) => edit(index, { text: event.currentTarget.value })}
            />
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label={`Remove ${row.name || `row ${index + 1}`}`}
              onClick={() => update(rows.filter((_, at) => at !== index))}
            >
              <IconTrash size={16} />
            </ActionIcon>
          </Group>
        ))}
        <Button
          size="compact-xs"
          variant="subtle"
          leftSection={<IconPlus size={14} />}
          style={{ alignSelf: "flex-start" }}
          onClick={() => update([...rows, { name: "", text: "" }])}
        >
          Add
        </Button>
      </Stack>
    </Input.Wrapper>
  );
}

function show(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function read(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
