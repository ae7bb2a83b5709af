import { Paper, Table, Text, Title } from "@mantine/core";
import type { Job } from "../../api/types";
import { TakeTable } from "../../components/TakeTable";
import { differences, settingText } from "../../lib/differences";

// Two jobs fit on a phone.
const COLUMN_PX = 108;

/** The settings in which the jobs differ. */
export function SettingsTable({ jobs }: { jobs: Job[] }) {
  const rows = differences(jobs.map((job) => job.spec));
  return (
    <Paper p="sm">
      <Title order={2} fz="md" mb={4}>
        What differs
      </Title>
      {rows.length === 0 ? (
        <Text size="sm" c="dimmed" data-testid="settings-equal">
          {jobs.length > 1 ? "Their settings are the same." : "One job differs from nothing."}
        </Text>
      ) : (
        <TakeTable file="compare settings">
          <Table.ScrollContainer minWidth={COLUMN_PX * (jobs.length + 1)} type="native">
            <Table fz="sm" verticalSpacing={4} data-testid="settings">
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>Setting</Table.Th>
                  {jobs.map((job) => (
                    <Table.Th key={job.id}>{job.name}</Table.Th>
                  ))}
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {rows.map(({ path, values }) => (
                  <Table.Tr key={path} data-testid={`setting-${path}`}>
                    <Table.Td ff="monospace" fz="xs" miw={COLUMN_PX} style={{ overflowWrap: "anywhere" }}>
                      {path}
                    </Table.Td>
                    {jobs.map((job, index) => (
                      <Table.Td key={job.id} style={{ overflowWrap: "anywhere" }}>
                        {settingText(values[index])}
                      </Table.Td>
                    ))}
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        </TakeTable>
      )}
    </Paper>
  );
}
