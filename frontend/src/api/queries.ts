import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import type { JobsSearch } from "../lib/search";
import { timed } from "../live/costs";
import { client, unwrap } from "./client";
import type { PlotlyFigure, Race, Theme } from "./types";

// Every query that changes while jobs run says so in `meta.jobs`: the ids of the jobs that it shows, or "all".
// live/refresher.ts asks for it again when a notice says that one of them changed.

const FOREVER = { staleTime: Number.POSITIVE_INFINITY };

export const jobsQuery = (search: JobsSearch) =>
  infiniteQueryOptions({
    queryKey: ["jobs", "pages", search],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/jobs", {
          params: { query: { ...search, limit: 50, cursor: pageParam } },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    placeholderData: keepPreviousData,
    meta: { jobs: "all" },
  });

/** The newest jobs, whatever their state: for pickers and for finding races. */
export const recentJobsQuery = queryOptions({
  queryKey: ["jobs", "recent"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/jobs", { params: { query: { limit: 100 } }, signal })),
  meta: { jobs: "all" },
});

export const jobQuery = (id: string) =>
  queryOptions({
    queryKey: ["job", id],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } }, signal })),
    meta: { jobs: [id] },
  });

export const summaryQuery = (id: string) =>
  queryOptions({
    queryKey: ["summary", id],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/jobs/{job_id}/summary", { params: { path: { job_id: id } }, signal })),
    meta: { jobs: [id] },
  });

export interface FigureParams {
  width: number;
  theme: Theme;
  step?: number;
  from_ns?: number;
  to_ns?: number;
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
    meta: { jobs: [id] },
  });

export const raceQuery = (ids: string[], params: { theme: Theme; width: number; step?: number }) =>
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
    meta: { jobs: ids },
  });

export const strategiesQuery = queryOptions({
  queryKey: ["strategies"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/strategies", { signal })),
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
