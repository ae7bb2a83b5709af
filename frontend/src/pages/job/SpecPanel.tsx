import { Button, Code, CopyButton, Group, Paper, Stack, Text, Title } from "@mantine/core";
import type { Job } from "../../api/types";

/** What was submitted, and the plan that its strategy made of it, as they are. */
export function SpecPanel({ job }: { job: Job }) {
  return (
    <Stack gap="md">
      <Raw title="Specification" note={`Job ${job.id}`} value={job.spec} testId="spec" />
      <Raw title="Plan" note={`Made by ${job.plan.strategy}`} value={job.plan} testId="raw-plan" />
    </Stack>
  );
}

interface RawProps {
  title: string;
  note: string;
  value: object;
  testId: string;
}

function Raw({ title, note, value, testId }: RawProps) {
  const text = JSON.stringify(value, null, 2);
  return (
    <Paper p="sm">
      <Group justify="space-between" mb="xs">
        <Title order={2} fz="md">
          {title}
        </Title>
        <CopyButton value={text}>
          {({ copied, copy }) => (
            <Button size="compact-sm" variant="default" onClick={copy}>
              {copied ? "Copied" : "Copy"}
            </Button>
          )}
        </CopyButton>
      </Group>
      <Text size="xs" c="dimmed" mb="xs">
        {note}
      </Text>
      <Code block mah="70vh" style={{ overflow: "auto" }} data-testid={testId}>
        {text}
      </Code>
    </Paper>
  );
}
