import { Button, FileButton, Group, Select, Stack, Text } from "@mantine/core";
import { IconFileText } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { useRef } from "react";
import { client, unwrap } from "../../api/client";
import type { Template } from "../../api/types";
import { Problem } from "../../components/Problem";
import { Described } from "../../form/SchemaField";

export interface Opened {
  file: string;
  spec: Record<string, unknown>;
}

interface Props {
  templates: Template[];
  chosen: Template | undefined;
  onTemplate: (name: string | undefined) => void;
  onOpened: (opened: Opened) => void;
}

/** What the form is filled from: a template of ours, or a file that is read as the terminal reads it. */
export function StartFrom({ templates, chosen, onTemplate, onOpened }: Props) {
  const forget = useRef<() => void>(null);
  const read = useMutation({
    mutationFn: async (file: File) => {
      const text = await file.text();
      const { spec } = await unwrap(client.POST("/api/v1/templates/read", { body: { text } }));
      return { file: file.name, spec };
    },
    onSuccess: onOpened,
    // The same file again, once it is corrected.
    onSettled: () => forget.current?.(),
  });
  return (
    <Stack gap="xs">
      <Group gap="xs">
        <Select
          size="xs"
          w={220}
          placeholder="Start from a template"
          aria-label="Template"
          data={templates.map(({ name }) => name)}
          value={chosen?.name ?? null}
          clearable
          onChange={(name) => {
            read.reset();
            onTemplate(name ?? undefined);
          }}
          data-testid="template"
        />
        <FileButton
          accept=".yaml,.yml,.json"
          resetRef={forget}
          onChange={(file) => file && read.mutate(file)}
          inputProps={{ "aria-label": "A job's file" }}
        >
          {(props) => (
            <Button
              {...props}
              size="xs"
              variant="light"
              loading={read.isPending}
              leftSection={<IconFileText size={16} />}
            >
              Open a YAML or JSON file
            </Button>
          )}
        </FileButton>
      </Group>
      {chosen && (
        <Text c="dimmed" size="sm">
          <Described text={chosen.summary} />
        </Text>
      )}
      {read.error && <Problem error={read.error} testId="file-problem" />}
    </Stack>
  );
}
