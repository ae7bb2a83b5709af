import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { timed, timedMore } from "../live/costs";
import { client, unwrap } from "./client";

// Events are many: those that nobody looks at are soon let go.
const GONE_MS = 5_000;

// As many rows as a person reads before asking for more.
const EVENTS_PAGE = 300;

/** The newest step of an attempt whose events were kept; null: there is none yet. */
export const newestDetailedStepQuery = (id: string, attempt: number | undefined) =>
  queryOptions({
    queryKey: ["newest detailed step", id, attempt],
    queryFn: ({ signal, queryKey }) =>
      timed(queryKey, async () => {
        const query = { attempt, limit: 1, fields: "step" };
        const answer = await unwrap(
          client.GET("/api/v1/jobs/{job_id}/events", { params: { path: { job_id: id }, query }, signal }),
        );
        return answer.newest_step;
      }),
    meta: { jobs: [id] },
  });

/** The detailed events of one step of an attempt (none given: of the latest), in pages; of these kinds (none given: of
 * all), and of this layer. More of them may be on their way while the attempt runs. */
export const eventsQuery = (
  id: string,
  attempt: number | undefined,
  step: number,
  kinds: string[] = [],
  layer?: number,
) =>
  infiniteQueryOptions({
    queryKey: ["events", id, attempt, step, kinds, layer],
    queryFn: ({ pageParam, signal, queryKey }) => {
      const which = { attempt, step_from: step, step_to: step, kind: kinds.join(",") || undefined, layer };
      const query = { ...which, limit: EVENTS_PAGE, cursor: pageParam };
      const ask = () =>
        unwrap(
          client.GET("/api/v1/jobs/{job_id}/events", { params: { path: { job_id: id }, query }, signal }),
        );
      return pageParam === null ? timed(queryKey, ask) : timedMore(queryKey, ask);
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    placeholderData: keepPreviousData,
    gcTime: GONE_MS,
    meta: { jobs: [id] },
  });

// More events of one layer than that nobody steps through.
const LAYER_EVENTS = 1000;

/** A layer's events in one step, in order of time: the first so many. */
export const layerEventsQuery = (id: string, attempt: number | undefined, step: number, layer: number) =>
  queryOptions({
    queryKey: ["layer events", id, attempt, step, layer],
    queryFn: ({ signal, queryKey }) => {
      const fields = "worker,kind,start_ns,end_ns";
      const query = { attempt, step_from: step, step_to: step, layer, limit: LAYER_EVENTS, fields };
      return timed(queryKey, () =>
        unwrap(
          client.GET("/api/v1/jobs/{job_id}/events", { params: { path: { job_id: id }, query }, signal }),
        ),
      );
    },
    gcTime: GONE_MS,
    meta: { jobs: [id] },
  });
