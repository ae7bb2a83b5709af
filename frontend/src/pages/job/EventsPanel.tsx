import { Group, MultiSelect, Paper, Skeleton, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { eventsQuery } from "../../api/queries";
import type { Events, Job } from "../../api/types";
import { Problem } from "../../components/Problem";
import { StepField } from "../../components/StepField";
import { formatBytes, formatMs, formatNumber } from "../../lib/format";
import type { JobSearch } from "../../lib/search";

// More rows than a person reads: the API and the exported trace have all.
const MOST_ROWS = 300;

/** One step's events as they were recorded, in order of time. */
export function EventsPanel({ job, search }: { job: Job; search: JobSearch }) {
  const navigate = useNavigate({ from: "/jobs/$jobId" });
  const [kinds, setKinds] = useState<string[]>([]);
  const last = Math.max((job.step ?? 1) - 1, 0);
  const step = search.step ?? last;
  const query = useQuery(eventsQuery(job.id, step));
  const events = query.data;
  const rows = events ? rowsOf(events, kinds, search.layer) : [];
  const first = events ? Math.min(...events.start_ns) : 0;
  return (
    <Paper p="sm">
      <Group gap="xs" mb="xs">
        <StepField
          step={step}
          min={0}
          max={last}
          onStep={(chosen) =>
            void navigate({
              search: (previous) => ({ ...previous, step: chosen }),
              replace: true,
              resetScroll: false,
            })
          }
        />
        <MultiSelect
          size="xs"
          aria-label="Kinds of events"
          placeholder={kinds.length === 0 ? "All kinds" : undefined}
          data={[...new Set(events?.kind ?? [])].toSorted()}
          value={kinds}
          clearable
          onChange={setKinds}
        />
        <Text size="xs" c="dimmed" data-testid="events-count">
          {formatNumber(rows.length, 6)} events
          {rows.length > MOST_ROWS && `, the first ${MOST_ROWS} are shown`}
          {events?.truncated && "; there are more than are answered at once"}
        </Text>
      </Group>
      {query.error && <Problem error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton height={300} />}
      {events && rows.length === 0 && (
        <Text size="sm" c="dimmed">
          No event of this step was kept: every event is kept of some steps only.
        </Text>
      )}
      {events && rows.length > 0 && (
        <Table.ScrollContainer minWidth={760} maxHeight={640} type="native">
          <Table fz="xs" verticalSpacing={3} stickyHeader data-testid="events">
            <Table.Thead>
              <Table.Tr>
                <Table.Th ta="right">At</Table.Th>
                <Table.Th ta="right">Took</Table.Th>
                <Table.Th>Process</Table.Th>
                <Table.Th>Event</Table.Th>
                <Table.Th>Layer</Table.Th>
                <Table.Th ta="right">Unit</Table.Th>
                <Table.Th>Other side</Table.Th>
                <Table.Th ta="right">Queued</Table.Th>
                <Table.Th ta="right">Priority</Table.Th>
                <Table.Th ta="right">Bytes</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {rows.slice(0, MOST_ROWS).map((at) => (
                <EventRow key={at} events={events} at={at} first={first} />
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Paper>
  );
}

function EventRow({ events, at, first }: { events: Events; at: number; first: number }) {
  const number = (column: number[]) => column[at] ?? -1;
  const [start, queued, size] = [number(events.start_ns), number(events.queued_ns), number(events.bytes)];
  const named = (names: string[], index: number) => (index < 0 ? "" : (names[index] ?? String(index)));
  const kind = events.kind[at];
  return (
    <Table.Tr c={kind === "wait" ? "var(--ty-wait)" : undefined}>
      <Table.Td ta="right" className="ty-number">
        {((start - first) / 1e6).toFixed(3)} ms
      </Table.Td>
      <Table.Td ta="right" className="ty-number">
        {formatMs((number(events.end_ns) - start) / 1e6)}
      </Table.Td>
      <Table.Td>{named(events.parties, number(events.worker))}</Table.Td>
      <Table.Td>{kind?.replace("_", " ")}</Table.Td>
      <Table.Td>{named(events.layers, number(events.layer))}</Table.Td>
      <Table.Td ta="right" className="ty-number">
        {number(events.unit) < 0 ? "" : number(events.unit)}
      </Table.Td>
      <Table.Td>{named(events.parties, number(events.peer))}</Table.Td>
      <Table.Td ta="right" className="ty-number">
        {queued < 0 ? "" : formatMs((start - queued) / 1e6)}
      </Table.Td>
      <Table.Td ta="right" className="ty-number">
        {number(events.peer) < 0 ? "" : number(events.priority)}
      </Table.Td>
      <Table.Td ta="right" className="ty-number">
        {size > 0 ? formatBytes(size) : ""}
      </Table.Td>
    </Table.Tr>
  );
}

/** Which events are of these kinds (none chosen: of all) and of this layer. */
function rowsOf(events: Events, kinds: string[], layer: number | undefined): number[] {
  return events.kind.flatMap((kind, at) =>
    (kinds.length === 0 || kinds.includes(kind)) && (layer === undefined || events.layer[at] === layer)
      ? [at]
      : [],
  );
}
