import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { deepEqual } from "@tanstack/react-router";
import { LEFT_QUEUE } from "../lib/jobState";
import type { By, JobsSearch, Measure } from "../lib/search";
import type { WaitKey } from "../lib/why";
import { timed, timedMore } from "../live/costs";
import { client, unwrap } from "./client";
import type { PlotlyFigure, Race, Theme } from "./types";

// Every query that changes while jobs run says so in `meta.jobs`: the ids of the jobs that it shows, or "all".
// live/refresher.ts asks for it again when a notice says that one of them changed.

// A figure is a megabyte or more, and the service has it at hand: those out of sight are soon let go.
// One that comes again unchanged stays the one that is drawn; of another nothing is kept: to look for what is equal in
// both, value by value, takes as long as to draw it.
const FIGURE = {
  gcTime: 5_000,
  structuralSharing: (before: unknown, now: unknown) => (deepEqual(before, now) ? before : now),
};
const FOREVER = { staleTime: Number.POSITIVE_INFINITY };

// The first page comes at once; whoever scrolls on gets more with each.
const FIRST_PAGE = 50;
const NEXT_PAGES = 200;

export const jobsQuery = (search: JobsSearch) =>
  infiniteQueryOptions({
    queryKey: ["jobs", "pages", search],
    queryFn: ({ pageParam, signal, queryKey }) => {
      const limit = pageParam === null ? FIRST_PAGE : NEXT_PAGES;
      const ask = () =>
        unwrap(
          client.GET("/api/v1/jobs", {
            params: { query: { ...search, limit, cursor: pageParam } },
            signal,
          }),
        );
      return pageParam === null ? timed(queryKey, ask) : timedMore(queryKey, ask);
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    placeholderData: keepPreviousData,
    meta: { jobs: "all" },
  });

/** The newest jobs with `text` in their names, whatever their state: for pickers. */
export const namedJobsQuery = (text: string) =>
  queryOptions({
    queryKey: text ? ["jobs", "named", text] : ["jobs", "recent"],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/jobs", { params: { query: { limit: 100, text: text || undefined } }, signal }),
      ),
    placeholderData: keepPreviousData,
    meta: { jobs: "all" },
  });

/** The newest jobs: for finding races. */
export const recentJobsQuery = namedJobsQuery("");

/** The newest jobs that have left the queue: where it is long, what runs is not among the newest. */
export const leftQueueQuery = queryOptions({
  queryKey: ["jobs", "left queue"],
  queryFn: ({ signal }) =>
    unwrap(
      client.GET("/api/v1/jobs", {
        params: { query: { limit: 100, state: LEFT_QUEUE.join(",") } },
        signal,
      }),
    ),
  meta: { jobs: "all" },
});

export const jobQuery = (id: string) =>
  queryOptions({
    queryKey: ["job", id],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } }, signal })),
    meta: { jobs: [id] },
  });

/** `baseline`: another one than the job's own; `attempt`: another one than the latest. */
export const summaryQuery = (id: string, baseline?: string, attempt?: number) =>
  queryOptions({
    queryKey: ["summary", id, baseline, attempt],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/jobs/{job_id}/summary", {
          params: { path: { job_id: id }, query: { baseline, attempt } },
          signal,
        }),
      ),
    meta: { jobs: baseline ? [id, baseline] : [id] },
  });

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
    gcTime: FIGURE.gcTime,
    meta: { jobs: [id] },
  });

export interface FigureParams {
  width: number;
  theme: Theme;
  step?: number;
  to_step?: number;
  from_ns?: number;
  to_ns?: number;
  /** A wait to light up. */
  why?: string;
  /** A layer to light up; only the timeline of many steps is drawn for it. */
  layer?: number;
  /** Of the utilization: the links that are drawn, with commas. */
  links?: string;
  /** What the speed-up is measured against, where it is not the job's own baseline. */
  baseline?: string;
  /** The one that is shown, where it is not the latest. */
  attempt?: number;
}

export const figureQuery = (id: string, name: string, params: FigureParams) =>
  queryOptions({
    queryKey: ["figure", id, name, params],
    queryFn: ({ signal, queryKey }) =>
      timed(
        queryKey,
        () =>
          unwrap(
            client.GET("/api/v1/jobs/{job_id}/figures/{name}", {
              params: { path: { job_id: id, name }, query: params },
              signal,
            }),
          ) as Promise<unknown> as Promise<PlotlyFigure>,
      ),
    placeholderData: keepPreviousData,
    ...FIGURE,
    meta: { jobs: [id] },
  });

/** Why a worker waited, in an attempt or the latest. What is recorded of a wait does not change. */
export const whyQuery = (id: string, wait: WaitKey, attempt?: number) =>
  queryOptions({
    queryKey: ["why", id, wait, attempt],
    queryFn: ({ signal }) => {
      const query = { ...wait, attempt };
      return unwrap(
        client.GET("/api/v1/jobs/{job_id}/why", { params: { path: { job_id: id }, query }, signal }),
      );
    },
    staleTime: 60_000,
    retry: false,
  });

interface CompareParams {
  what: Measure;
  by: By;
  theme: Theme;
  width: number;
}

/** One measurement of several jobs. */
export const compareQuery = (ids: string[], params: CompareParams) =>
  queryOptions({
    queryKey: ["compare", ids, params],
    queryFn: ({ signal, queryKey }) =>
      timed(
        queryKey,
        () =>
          unwrap(
            client.GET("/api/v1/compare", { params: { query: { jobs: ids.join(","), ...params } }, signal }),
          ) as Promise<unknown> as Promise<PlotlyFigure>,
      ),
    placeholderData: keepPreviousData,
    ...FIGURE,
    meta: { jobs: ids },
  });

interface RaceParams {
  theme: Theme;
  width: number;
  step?: number;
  /** Since the step's start. */
  from_ns?: number;
  to_ns?: number;
  /** A wait to light up, and whose it is. */
  why?: string;
  why_job?: string;
}

export const raceQuery = (ids: string[], params: RaceParams) =>
  queryOptions({
    queryKey: ["race", ids, params],
    queryFn: ({ signal, queryKey }) =>
      timed(queryKey, () =>
        unwrap(client.GET("/api/v1/race", { params: { query: { jobs: ids.join(","), ...params } }, signal })),
      ),
    // Another race's picture is no placeholder for this one; the same with a job fewer is.
    placeholderData: (previous: Race | undefined, query) =>
      (query?.queryKey[1] as string[] | undefined)?.every((id) => ids.includes(id)) ? previous : undefined,
    enabled: ids.length > 0,
    ...FIGURE,
    meta: { jobs: ids },
  });

const RACES_PAGE = 50;

/** Races, newest first. */
export const racesQuery = infiniteQueryOptions({
  queryKey: ["races"],
  queryFn: ({ pageParam, signal }) =>
    unwrap(
      client.GET("/api/v1/races", { params: { query: { limit: RACES_PAGE, cursor: pageParam } }, signal }),
    ),
  initialPageParam: null as string | null,
  getNextPageParam: (page) => page.next_cursor,
  meta: { jobs: "all" },
});

/** One race with its rankings. It ends a moment after its last job has, of which no notice tells. */
export const rankingsQuery = (id: string) =>
  queryOptions({
    queryKey: ["rankings", id],
    queryFn: ({ signal, queryKey }) =>
      timed(queryKey, () =>
        unwrap(client.GET("/api/v1/races/{race_id}", { params: { path: { race_id: id } }, signal })),
      ),
    refetchInterval: ({ state }) => (state.data?.state === "running" ? 5_000 : false),
    meta: { jobs: "all" },
  });

export const strategiesQuery = queryOptions({
  queryKey: ["strategies"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/strategies", { signal })),
  ...FOREVER,
});

export const axesQuery = queryOptions({
  queryKey: ["axes"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/axes", { signal })),
  ...FOREVER,
});

export const modelsQuery = queryOptions({
  queryKey: ["models"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/models", { signal })),
  ...FOREVER,
});

export const datasetsQuery = queryOptions({
  queryKey: ["datasets"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/datasets", { signal })),
  ...FOREVER,
});

export const templatesQuery = queryOptions({
  queryKey: ["templates"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/templates", { signal })),
  ...FOREVER,
});

export const figuresQuery = queryOptions({
  queryKey: ["figures"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/figures", { signal })),
  ...FOREVER,
});

export const jobSchemaQuery = queryOptions({
  queryKey: ["schema", "job"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/schema/job", { signal })),
  ...FOREVER,
});
