import { Button, Group, MultiSelect, Paper, Skeleton, Table, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { eventsQuery, newestDetailedStepQuery } from "../../api/eventQueries";
import { summaryQuery } from "../../api/queries";
import type { Events, Job } from "../../api/types";
import { Problem } from "../../components/Problem";
import { StepField } from "../../components/StepField";
import { TakeTable } from "../../components/TakeTable";
import { eventAt, eventRows, kindName } from "../../lib/eventRows";
import { formatBytes, formatMs, formatNumber } from "../../lib/format";
import { isLive } from "../../lib/jobState";
import type { JobSearch } from "../../lib/search";

/** One step's events as they were recorded: the newest that was kept when one began to look, until one chooses. */
export function EventsPanel({ job, search }: { job: Job; search: JobSearch }) {
  // An attempt of its own also where it is the latest: what is known of one says nothing about the next.
  const attempt = search.attempt ?? job.attempts.at(-1)?.number;
  const query = useQuery(newestDetailedStepQuery(job.id, attempt));
  const newest = query.data ?? undefined;
  const [standing, setStanding] = useState<number>();
  if (standing === undefined && newest !== undefined) setStanding(newest);
  const step = search.step ?? standing;
  if (step !== undefined)
    return (
      <StepEvents
        job={job}
        search={search}
        attempt={attempt}
        step={step}
        newest={newest}
        onLatest={() => setStanding(newest)}
      />
    );
  return (
    <Paper p="sm">
      {query.error && <Problem error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton height={300} />}
      {query.data === null && (
        <Text size="sm" c="dimmed" data-testid="events-none">
          No step has its events here {search.attempt === undefined && isLive(job.state) ? "yet" : "at all"}:
          every event is kept of some steps only.
        </Text>
      )}
    </Paper>
  );
}

interface StepProps {
  job: Job;
  search: JobSearch;
  attempt: number | undefined;
  step: number;
  /** The newest step that was kept, where that is known. */
  newest: number | undefined;
  /** The newest is to be shown. */
  onLatest: () => void;
}

/** The events of one step, in order of time: a page, and more where one asks. */
function StepEvents({ job, search, attempt, step, newest, onLatest }: StepProps) {
  const navigate = useNavigate({ from: "/jobs/$jobId" });
  const change = (changed: Pick<JobSearch, "step" | "kinds">) =>
    void navigate({
      search: (previous) => ({ ...previous, ...changed }),
      replace: true,
      resetScroll: false,
    });
  const kinds = search.kinds ?? [];
  const earlier = useQuery({
    ...summaryQuery(job.id, undefined, search.attempt),
    enabled: search.attempt !== undefined,
  });
  const steps = search.attempt === undefined ? job.step : earlier.data?.steps;
  const last = Math.max((steps ?? 1) - 1, newest ?? 0, 0);
  const query = useInfiniteQuery(eventsQuery(job.id, attempt, step, kinds, search.layer));
  const pages = query.data?.pages ?? [];
  const count = pages.reduce((sum, page) => sum + page.kind.length, 0);
  // Also what is filtered is counted from the step's first event.
  const first = useInfiniteQuery(eventsQuery(job.id, attempt, step)).data?.pages[0]?.start_ns[0] ?? 0;
  return (
    <Paper p="sm">
      <Group gap="xs" mb="xs">
        <StepField step={step} min={0} max={last} onStep={(chosen) => change({ step: chosen })} />
        <Button
          size="compact-sm"
          variant="default"
          data-testid="events-latest"
          disabled={newest === undefined || step === newest}
          onClick={() => {
            onLatest();
            change({ step: undefined });
          }}
        >
          Latest
        </Button>
        <MultiSelect
          size="xs"
          aria-label="Kinds of events"
          data-testid="events-kinds"
          placeholder={kinds.length === 0 ? "All kinds" : undefined}
          data={(pages[0]?.kinds ?? kinds).map((kind) => ({ value: kind, label: kindName(kind) }))}
          value={kinds}
          clearable
          onChange={(chosen) => change({ kinds: chosen })}
        />
        <Text size="xs" c="dimmed" data-testid="events-count">
          {formatNumber(count, 6)} {count === 1 ? "event" : "events"}
          {query.hasNextPage && ", more follow"}
        </Text>
      </Group>
      {query.error && <Problem error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton height={300} />}
      {query.data && count === 0 && (
        <Text size="sm" c="dimmed">
          {kinds.length > 0 || search.layer !== undefined
            ? "No event of this step is of these kinds and this layer."
            : "No event of this step was kept: every event is kept of some steps only."}
        </Text>
      )}
      {count > 0 && (
        <TakeTable file={`${job.name} step ${step} events`} rows={() => eventRows(pages, first)}>
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
                  <Table.Th>Clock</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {pages.flatMap((events, page) =>
                  events.kind.map((_, at) => (
                    // biome-ignore lint/suspicious/noArrayIndexKey: an event is its place in its page
                    <EventRow key={`${page} ${at}`} events={events} at={at} first={first} />
                  )),
                )}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        </TakeTable>
      )}
      {query.hasNextPage && (
        <Button
          mt="xs"
          size="compact-sm"
          variant="default"
          loading={query.isFetchingNextPage}
          data-testid="events-more"
          onClick={() => void query.fetchNextPage()}
        >
          Show more
        </Button>
      )}
    </Paper>
  );
}

function EventRow({ events, at, first }: { events: Events; at: number; first: number }) {
  const event = eventAt(events, at);
  return (
    <Table.Tr c={event.kind === "wait" ? "var(--ty-wait)" : undefined}>
      <Table.Td ta="right" className="ty-number">
        {((event.start_ns - first) / 1e6).toFixed(3)} ms
      </Table.Td>
      <Table.Td ta="right" className="ty-number">
        {formatMs(event.took_ns / 1e6)}
      </Table.Td>
      <Table.Td>{event.process}</Table.Td>
      <Table.Td>{event.kind}</Table.Td>
      <Table.Td>{event.layer_name}</Table.Td>
      <Table.Td ta="right" className="ty-number">
        {event.unit}
      </Table.Td>
      <Table.Td>{event.peer}</Table.Td>
      <Table.Td ta="right" className="ty-number">
        {event.queued_ns !== null && formatMs(event.queued_ns / 1e6)}
      </Table.Td>
      <Table.Td ta="right" className="ty-number">
        {event.priority}
      </Table.Td>
      <Table.Td ta="right" className="ty-number">
        {event.bytes !== null && formatBytes(event.bytes)}
      </Table.Td>
      <Table.Td>{event.clock}</Table.Td>
    </Table.Tr>
  );
}
