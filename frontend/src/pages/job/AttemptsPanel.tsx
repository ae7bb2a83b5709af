import { Box, Group, Paper, Stack, Table, Text, Title } from "@mantine/core";
import type { Job } from "../../api/types";
import { LinkAnchor } from "../../components/links";
import { Marked } from "../../components/Marked";
import { TakeTable } from "../../components/TakeTable";
import { arrival } from "../../lib/arrival";
import { attemptRows, endOf, historyRows, historyWords } from "../../lib/attemptRows";
import { formatDuration, NONE } from "../../lib/format";
import { isLive, STATES } from "../../lib/jobState";
import { CheckpointsPanel } from "./CheckpointsPanel";

// Broken only where a word is longer than this: else a small window shows a letter per line.
const WORDS = { overflowWrap: "anywhere", minWidth: 180 } as const;

/** Every try at running the job with what it ran on, and the states that the job went through. */
export function AttemptsPanel({ job }: { job: Job }) {
  const latest = job.attempts.at(-1)?.number;
  const words = historyWords(job);
  return (
    <Stack gap="md">
      <Paper p="sm">
        <Title order={2} fz="md" mb="xs">
          Attempts
        </Title>
        {job.attempts.length === 0 ? (
          <Text size="sm" c="dimmed">
            {isLive(job.state) ? "It has not been started yet." : "It was never started."}
          </Text>
        ) : (
          <TakeTable file={`${job.name} attempts`} rows={() => attemptRows(job.attempts)}>
            <Box style={{ overflowX: "auto" }}>
              <Table className="ty-table" fz="sm" verticalSpacing={4} data-testid="attempts">
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>Attempt</Table.Th>
                    <Table.Th>State</Table.Th>
                    <Table.Th>Started</Table.Th>
                    <Table.Th className="ty-right">Took</Table.Th>
                    <Table.Th>Processes on devices</Table.Th>
                    <Table.Th>How it ended</Table.Th>
                    <Table.Th>Telemetry</Table.Th>
                    <Table.Th />
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {job.attempts.toReversed().map((attempt) => (
                    <Table.Tr key={attempt.id}>
                      <Table.Td className="ty-number" data-label="Attempt">
                        {attempt.number}
                        {attempt.resumed_step !== null && (
                          <Text size="xs" c="dimmed" data-testid="resumed">
                            from step {attempt.resumed_step}
                          </Text>
                        )}
                      </Table.Td>
                      <Table.Td data-label="State">{attempt.state}</Table.Td>
                      <Table.Td className="ty-number" data-label="Started">
                        {time(attempt.started_at)}
                      </Table.Td>
                      <Table.Td className="ty-number ty-right" data-label="Took">
                        {took(attempt)}
                      </Table.Td>
                      <Table.Td data-label="Processes on devices">
                        {attempt.parties
                          .map((party, index) =>
                            attempt.devices[index] ? `${party} on ${attempt.devices[index]}` : party,
                          )
                          .join(", ")}
                      </Table.Td>
                      <Table.Td style={WORDS} data-label="How it ended">
                        <Marked text={endOf(attempt) ?? NONE} />
                        {attempt.preempted_for && (
                          <Text size="xs">
                            <LinkAnchor
                              to="/jobs/$jobId"
                              params={{ jobId: attempt.preempted_for }}
                              fz="xs"
                              data-testid="preempted-for"
                            >
                              The job that it made room for
                            </LinkAnchor>
                          </Text>
                        )}
                      </Table.Td>
                      <Table.Td data-label="Telemetry">{arrival(attempt)}</Table.Td>
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
            </Box>
          </TakeTable>
        )}
      </Paper>
      <CheckpointsPanel job={job} />
      <Paper p="sm">
        <Title order={2} fz="md" mb="xs">
          History
        </Title>
        <TakeTable file={`${job.name} history`} rows={() => historyRows(job.history)}>
          <Table className="ty-table" fz="sm" verticalSpacing={4} data-testid="history">
            <Table.Tbody>
              {job.history.map((entry, place) => (
                <Table.Tr key={`${entry.at} ${entry.to_state}`}>
                  <Table.Td w={190} fz={{ base: "xs", sm: "sm" }} className="ty-number ty-half">
                    {time(entry.at)}
                  </Table.Td>
                  <Table.Td w={120} className="ty-half">
                    {STATES[entry.to_state as Job["state"]]?.label ?? entry.to_state}
                  </Table.Td>
                  <Table.Td style={WORDS}>{words[place] && <Marked text={words[place]} />}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </TakeTable>
      </Paper>
    </Stack>
  );
}

function time(at: string | null): string {
  return at === null ? NONE : new Date(at).toLocaleString();
}

function took({ started_at: from, ended_at: to }: Job["attempts"][number]): string {
  return from && to ? formatDuration((Date.parse(to) - Date.parse(from)) / 1000) : NONE;
}
