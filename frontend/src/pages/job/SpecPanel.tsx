import { Button, Code, CopyButton, Group, Paper, Stack, Table, Text, Title } from "@mantine/core";
import type { Job } from "../../api/types";
import { STATES } from "../../lib/jobState";

/** What was submitted, and the states that the job went through. */
export function SpecPanel({ job }: { job: Job }) {
  const text = JSON.stringify(job.spec, null, 2);
  return (
    <Stack gap="md">
      <Paper p="sm">
        <Title order={2} fz="md" mb="xs">
          History
        </Title>
        <Table fz="sm" verticalSpacing={4} data-testid="history">
          <Table.Tbody>
            {job.history.map((entry) => (
              <Table.Tr key={`${entry.at} ${entry.to_state}`}>
                <Table.Td w={190} className="ty-number">
                  {new Date(entry.at).toLocaleString()}
                </Table.Td>
                <Table.Td w={120}>{STATES[entry.to_state as Job["state"]]?.label ?? entry.to_state}</Table.Td>
                <Table.Td style={{ overflowWrap: "anywhere" }}>{entry.message ?? entry.reason}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Paper>
      <Paper p="sm">
        <Group justify="space-between" mb="xs">
          <Title order={2} fz="md">
            Specification
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
          Job {job.id}
        </Text>
        <Code block data-testid="spec">
          {text}
        </Code>
      </Paper>
    </Stack>
  );
}
