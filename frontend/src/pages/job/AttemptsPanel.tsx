import { Group, Paper, Stack, Table, Text, Title } from "@mantine/core";
import type { Job } from "../../api/types";
import { LinkAnchor } from "../../components/links";
import { TakeTable } from "../../components/TakeTable";
import { arrival } from "../../lib/arrival";
import { attemptRows } from "../../lib/attemptRows";
import { formatDuration } from "../../lib/format";
import { STATES } from "../../lib/jobState";

// Broken only where a word is longer than this: else a phone shows a letter per line.
const WORDS = { overflowWrap: "anywhere", minWidth: 180 } as const;

/** Every try at running the job with what it ran on, and the states that the job went through. */
export function AttemptsPanel({ job }: { job: Job }) {
  const latest = job.attempts.at(-1)?.number;
  return (
    <Stack gap="md">
      <Paper p="sm">
        <Title order={2} fz="md" mb="xs">
          Attempts
        </Title>
        {job.attempts.length === 0 ? (
          <Text size="sm" c="dimmed">
            It has not been started yet.
          </Text>
        ) : (
          <TakeTable file={`${job.name} attempts`} rows={() => attemptRows(job.attempts)}>
            <Table.ScrollContainer minWidth={900} type="native">
              <Table fz="sm" verticalSpacing={4} data-testid="attempts">
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>Attempt</Table.Th>
                    <Table.Th>State</Table.Th>
                    <Table.Th>Started</Table.Th>
                    <Table.Th ta="right">Took</Table.Th>
                    <Table.Th>Processes on devices</Table.Th>
                    <Table.Th>How it ended</Table.Th>
                    <Table.Th>Telemetry</Table.Th>
                    <Table.Th />
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {job.attempts.toReversed().map((attempt) => (
                    <Table.Tr key={attempt.id}>
                      <Table.Td className="ty-number">{attempt.number}</Table.Td>
                      <Table.Td>{attempt.state}</Table.Td>
                      <Table.Td className="ty-number">{time(attempt.started_at)}</Table.Td>
                      <Table.Td ta="right" className="ty-number">
                        {took(attempt)}
                      </Table.Td>
                      <Table.Td>
                        {attempt.parties
                          .map((party, index) =>
                            attempt.devices[index] ? `${party} on ${attempt.devices[index]}` : party,
                          )
                          .join(", ")}
                      </Table.Td>
                      <Table.Td style={WORDS}>
                        {attempt.message ?? attempt.reason ?? "–"}
                        {attempt.exit_code ? ` (exit code ${attempt.exit_code})` : ""}
                      </Table.Td>
                      <Table.Td>{arrival(attempt)}</Table.Td>
                      <Table.Td>
                        <Group gap="xs" wrap="nowrap">
                          {(["overview", "timeline", "logs"] as const).map((tab) => (
                            <LinkAnchor
                              key={tab}
                              to="/jobs/$jobId"
                              params={{ jobId: job.id }}
                              search={{
                                tab,
                                attempt: attempt.number === latest ? undefined : attempt.number,
                              }}
                              fz="sm"
                              tt="capitalize"
                            >
                              {tab}
                            </LinkAnchor>
                          ))}
                        </Group>
                      </Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
          </TakeTable>
        )}
      </Paper>
      <Paper p="sm">
        <Title order={2} fz="md" mb="xs">
          History
        </Title>
        <Table.ScrollContainer minWidth={520} type="native">
          <Table fz="sm" verticalSpacing={4} data-testid="history">
            <Table.Tbody>
              {job.history.map((entry) => (
                <Table.Tr key={`${entry.at} ${entry.to_state}`}>
                  <Table.Td w={190} className="ty-number">
                    {time(entry.at)}
                  </Table.Td>
                  <Table.Td w={120}>
                    {STATES[entry.to_state as Job["state"]]?.label ?? entry.to_state}
                  </Table.Td>
                  <Table.Td style={WORDS}>{entry.message ?? entry.reason}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      </Paper>
    </Stack>
  );
}

function time(at: string | null): string {
  return at === null ? "–" : new Date(at).toLocaleString();
}

function took({ started_at: from, ended_at: to }: Job["attempts"][number]): string {
  return from && to ? formatDuration((Date.parse(to) - Date.parse(from)) / 1000) : "–";
}
