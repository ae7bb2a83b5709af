import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import type { By, JobsSearch, Measure } from "../lib/search";
import type { WaitKey } from "../lib/why";
import { timed, timedMore } from "../live/costs";
import { client, unwrap } from "./client";
import type { PlotlyFigure, Race, Theme } from "./types";

// Every query that changes while jobs run says so in `meta.jobs`: the ids of the jobs that it shows, or "all".
// live/refresher.ts asks for it again when a notice says that one of them changed.

// A figure is a megabyte or more, and the service has it at hand: those out of sight are soon let go.
const FIGURE_MS = 30_000;
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

export const jobQuery = (id: string) =>
  queryOptions({
    queryKey: ["job", id],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } }, signal })),
    meta: { jobs: [id] },
  });

/** `baseline`: another one than the job's own. */
export const summaryQuery = (id: string, baseline?: string) =>
  queryOptions({
    queryKey: ["summary", id, baseline],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/jobs/{job_id}/summary", {
          params: { path: { job_id: id }, query: { baseline } },
          signal,
        }),
      ),
    meta: { jobs: baseline ? [id, baseline] : [id] },
  });

// As many rows as a person reads before asking for more.
const EVENTS_PAGE = 300;

/** The detailed events of one step, in pages; of these kinds (none given: of all), and of this layer. */
export const eventsQuery = (id: string, step: number, kinds: string[] = [], layer?: number) =>
  infiniteQueryOptions({
    queryKey: ["events", id, step, kinds, layer],
    queryFn: ({ pageParam, signal }) => {
      const kind = kinds.join(",") || undefined;
      const query = { step_from: step, step_to: step, kind, layer, limit: EVENTS_PAGE, cursor: pageParam };
      return unwrap(
        client.GET("/api/v1/jobs/{job_id}/events", { params: { path: { job_id: id }, query }, signal }),
      );
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    placeholderData: keepPreviousData,
    gcTime: FIGURE_MS,
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
  /** What the speed-up is measured against, where it is not the job's own baseline. */
  baseline?: string;
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
    gcTime: FIGURE_MS,
    meta: { jobs: [id] },
  });

/** Why a worker waited. What is recorded of a wait does not change. */
export const whyQuery = (id: string, wait: WaitKey) =>
  queryOptions({
    queryKey: ["why", id, wait],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/jobs/{job_id}/why", { params: { path: { job_id: id }, query: wait }, signal }),
      ),
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
    gcTime: FIGURE_MS,
    meta: { jobs: ids },
  });

interface RaceParams {
  theme: Theme;
  width: number;
  step?: number;
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
    gcTime: FIGURE_MS,
    meta: { jobs: ids },
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
