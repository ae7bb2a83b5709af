import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { LEFT_QUEUE } from "../lib/jobState";
import type { By, GroupBy, JobsFilter, Measure } from "../lib/search";
import type { WaitKey } from "../lib/why";
import { timed, timedMore } from "../live/costs";
import { client, unwrap } from "./client";
import { FIGURE, figureOptions, PAGED } from "./shared";
import type { JobSpec, PlotlyFigure, Race, Theme } from "./types";

// Every query that changes while jobs run says so in `meta.jobs`: the ids of the jobs that it shows, or "all".
// live/refresher.ts asks for it again when a notice says that one of them changed.

const FOREVER = { staleTime: Number.POSITIVE_INFINITY };

// The first page comes at once; whoever scrolls on gets more with each.
const FIRST_PAGE = 50;
const NEXT_PAGES = 200;

/** Jobs that a list shows, in its order. */
export const jobsQuery = (search: JobsFilter & { sort?: string }) =>
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
    ...PAGED,
    placeholderData: keepPreviousData,
    meta: { jobs: "all" },
  });

/** How many of the jobs that a list shows have the same model, strategy, tag or race. */
export const jobGroupsQuery = (by: GroupBy, filter: JobsFilter) =>
  queryOptions({
    queryKey: ["jobs", "groups", by, filter],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/job-groups", { params: { query: { by, ...filter } }, signal })),
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

export type SpecForm = "yaml" | "json";

/** What a job was asked to be, as text: with every default, or only what was set. It never changes. */
export const specificationQuery = (id: string, form: SpecForm, whole: boolean) =>
  queryOptions({
    queryKey: ["specification", id, form, whole],
    queryFn: ({ signal }) => {
      const params = { path: { job_id: id }, query: { form, whole } };
      return unwrap(client.GET("/api/v1/jobs/{job_id}/specification", { params, signal, parseAs: "text" }));
    },
    placeholderData: keepPreviousData,
    ...FOREVER,
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
  figureOptions(
    ["figure", id, name, params],
    (signal) =>
      unwrap(
        client.GET("/api/v1/jobs/{job_id}/figures/{name}", {
          params: { path: { job_id: id, name }, query: params },
          signal,
        }),
      ),
    [id],
  );

/** How stale contributions were, and who is ahead; what it was over time is in the figures. */
export const stalenessQuery = (id: string, attempt?: number) =>
  queryOptions({
    queryKey: ["staleness", id, attempt],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/jobs/{job_id}/staleness", {
          params: { path: { job_id: id }, query: { attempt, windows: 1 } },
          signal,
        }),
      ),
    meta: { jobs: [id] },
  });

/** Of which steps a job's model can be had. */
export const checkpointsQuery = (id: string) =>
  queryOptions({
    queryKey: ["checkpoints", id],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/jobs/{job_id}/checkpoints", { params: { path: { job_id: id } }, signal })),
    meta: { jobs: [id] },
  });

/** What workers held in memory, and by layer what was saved, left or computed again; samples are in the figure. */
export const heldQuery = (id: string, attempt?: number) =>
  queryOptions({
    queryKey: ["held", id, attempt],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/jobs/{job_id}/memory", {
          params: { path: { job_id: id }, query: { attempt } },
          signal,
        }),
      ),
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

interface StretchParams {
  from_ns: number;
  to_ns: number;
  /** Only these links, with commas. */
  link?: string;
  attempt?: number;
}

/** Bytes by layer and link in a stretch of time, and the waits that fall into it. */
export const stretchQuery = (id: string, params: StretchParams) =>
  queryOptions({
    queryKey: ["stretch", id, params],
    queryFn: ({ signal, queryKey }) =>
      timed(queryKey, () =>
        unwrap(
          client.GET("/api/v1/jobs/{job_id}/links/stretch", {
            params: { path: { job_id: id }, query: params },
            signal,
          }),
        ),
      ),
    placeholderData: keepPreviousData,
    meta: { jobs: [id] },
  });

interface CompareParams {
  what: Measure;
  by: By;
  theme: Theme;
  width: number;
  /** Percent of the points that a moving average spans; none given: as the service decides. */
  smooth?: number;
}

/** One measurement of several jobs. */
export const compareQuery = (ids: string[], params: CompareParams) =>
  figureOptions(
    ["compare", ids, params],
    (signal) =>
      unwrap(
        client.GET("/api/v1/compare", { params: { query: { jobs: ids.join(","), ...params } }, signal }),
      ),
    ids,
  );

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

// What takes seconds of a processor is asked for by `refetch` alone (`useAsked`). Who leaves or asks about another specification
// is waited for no longer: the service ends what it has begun.
const ASKED = {
  enabled: false,
  retry: false,
  gcTime: 0, // a person's own code may be another one when they come back
} as const;

/** What a worker of the job would hold in memory. */
export const memoryQuery = (spec: JobSpec) =>
  queryOptions({
    queryKey: ["memory", JSON.stringify(spec)],
    queryFn: ({ signal }) => unwrap(client.POST("/api/v1/plans/memory", { body: spec, signal })),
    ...ASKED,
  });

/** Where codecs would pay for the job. */
export const codecsQuery = (spec: JobSpec) =>
  queryOptions({
    queryKey: ["codecs", JSON.stringify(spec)],
    queryFn: ({ signal }) => unwrap(client.POST("/api/v1/plans/codecs", { body: spec, signal })),
    ...ASKED,
  });

/** The job's largest batch in a worker's memory, `16GiB`. */
export const largestBatchQuery = (spec: JobSpec, memory: string) =>
  queryOptions({
    queryKey: ["largest batch", memory, JSON.stringify(spec)],
    queryFn: ({ signal }) =>
      unwrap(
        client.POST("/api/v1/plans/largest-batch", { params: { query: { memory } }, body: spec, signal }),
      ),
    ...ASKED,
  });

/** The same over a worker's memory up to this, as a figure. */
export const largestFigureQuery = (spec: JobSpec, memory: string, params: { width: number; theme: Theme }) =>
  queryOptions({
    queryKey: ["largest figure", memory, params, JSON.stringify(spec)],
    queryFn: ({ signal }) =>
      unwrap(
        client.POST("/api/v1/plans/largest-batch/figure", {
          params: { query: { memory, ...params } },
          body: spec,
          signal,
        }),
      ) as Promise<unknown> as Promise<PlotlyFigure>,
    ...ASKED,
  });

/** Every device, and which job holds it. */
export const devicesQuery = queryOptions({
  queryKey: ["devices"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/devices", { signal })),
  meta: { jobs: "all" },
});

/** The jobs that wait, in the order in which they may start. */
export const queueQuery = queryOptions({
  queryKey: ["queue"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/queue", { signal })),
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

export const startsQuery = queryOptions({
  queryKey: ["starts"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/starts", { signal })),
  ...FOREVER,
});

/** Whether several hosts can be had on the server's machine. */
export const labQuery = queryOptions({
  queryKey: ["lab"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/lab", { signal })),
  ...FOREVER,
});

export const wordsQuery = queryOptions({
  queryKey: ["words"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/words", { signal })),
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
