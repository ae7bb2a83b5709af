import { Badge, Group, Paper, Table, Text, Title } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { racesQuery } from "../../api/raceQueries";
import type { Queue, Waiting } from "../../api/types";
import { NumberCell } from "../../components/NumberCell";
import { TakeTable } from "../../components/TakeTable";
import { needs, waitingRows } from "../../lib/devices";
import { counted, formatDuration } from "../../lib/format";

/** What waits, in the order in which it may start: for what, and why, in the scheduler's own words. */
export function QueueTable({ queue }: { queue: Queue }) {
  const { items, total } = queue;
  const races = useInfiniteQuery(racesQuery);
  const toCome =
    races.data?.pages.flatMap(({ items }) =>
      items.filter(({ state, jobs, jobs_ended }) => state === "running" && jobs > jobs_ended),
    ) ?? [];
  return (
    <Paper p="sm" data-testid="queue">
      <Group justify="space-between" mb={4}>
        <Title order={2} fz="md">
          Waiting
        </Title>
        <Text size="sm" c="dimmed">
          {total === items.length ? total : `the first ${items.length} of ${total}`}{" "}
          {total === 1 ? "job" : "jobs"}
        </Text>
      </Group>
      {toCome.map((race) => (
        <Text key={race.id} size="sm" data-testid="race-to-come">
          The race{" "}
          <Link to="/races/$raceId" params={{ raceId: race.id }} className="ty-link">
            {race.name}
          </Link>{" "}
          has {counted(race.jobs - race.jobs_ended, "job")} that{" "}
          {race.jobs - race.jobs_ended === 1 ? "has" : "have"} not ended.{" "}
          {race.waits
            ? `It ${race.waits.replace(/\.$/, "")}.`
            : "It submits each when the one before it has ended, so that they do not all wait here."}
        </Text>
      ))}
      {items.length === 0 ? (
        <Text size="sm" c="dimmed" data-testid="queue-empty">
          No job waits now.
        </Text>
      ) : (
        <TakeTable file="waiting jobs" rows={() => waitingRows(items)}>
          <Table className="ty-table" verticalSpacing={6}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th w="24%">Job</Table.Th>
                <Table.Th w={170}>Needs</Table.Th>
                <Table.Th>Why it waits</Table.Th>
                <Table.Th w={80} className="ty-right">
                  Priority
                </Table.Th>
                <Table.Th w={120} className="ty-right">
                  Waits for
                </Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {items.map((waiting) => (
                <Row key={waiting.job_id} waiting={waiting} />
              ))}
            </Table.Tbody>
          </Table>
        </TakeTable>
      )}
    </Paper>
  );
}

function Row({ waiting }: { waiting: Waiting }) {
  const { job_id, job_name, message, retry_at, starts_at, starts_by, since, priority } = waiting;
  return (
    <Table.Tr data-testid={`waiting-${job_id}`}>
      <Table.Td>
        <Link to="/jobs/$jobId" params={{ jobId: job_id }} className="ty-link">
          {job_name}
        </Link>
      </Table.Td>
      <Table.Td data-label="Needs">{needs(waiting)}</Table.Td>
      <Table.Td style={{ overflowWrap: "anywhere" }}>
        {message ?? <Text c="dimmed">The scheduler has not looked at it yet.</Text>}
        {retry_at && (
          <Badge ml={6} color="orange" variant="light">
            again at {new Date(retry_at).toLocaleTimeString()}
          </Badge>
        )}
        {starts_at && (
          <Text size="sm" c="dimmed" title="If every job takes as long as is expected, and none is added">
            starts at {new Date(starts_at).toLocaleTimeString()} by{" "}
            {starts_by === "learned" ? "what earlier jobs took" : "what jobs have declared"}
          </Text>
        )}
      </Table.Td>
      <NumberCell label="Priority">{priority}</NumberCell>
      <NumberCell label="Waits for">{formatDuration((Date.now() - Date.parse(since)) / 1000)}</NumberCell>
    </Table.Tr>
  );
}
