import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import type { By } from "../lib/search";
import { timed } from "../live/costs";
import { client, unwrap } from "./client";
import { figureOptions, PAGED } from "./shared";
import type { Theme } from "./types";

// Races and their rankings.

const RACES_PAGE = 50;

/** Races, newest first. */
export const racesQuery = infiniteQueryOptions({
  queryKey: ["races"],
  queryFn: ({ pageParam, signal }) =>
    unwrap(
      client.GET("/api/v1/races", { params: { query: { limit: RACES_PAGE, cursor: pageParam } }, signal }),
    ),
  ...PAGED,
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

/** Which plan of a race is best, by four criteria, and how each learned. */
export const bestQuery = (id: string) =>
  queryOptions({
    queryKey: ["best", id],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/races/{race_id}/best", { params: { path: { race_id: id } }, signal })),
    meta: { jobs: "all" },
  });

/** How the plans of a race learned under one of its conditions. */
export const learningQuery = (
  id: string,
  params: { condition: number; by: By; width: number; theme: Theme },
) =>
  figureOptions(
    ["race learning", id, params],
    (signal) =>
      unwrap(
        client.GET("/api/v1/races/{race_id}/figures/learning", {
          params: { path: { race_id: id }, query: params },
          signal,
        }),
      ),
    "all",
  );

/** A figure of a race; a race of one condition has none. */
export const raceFigureQuery = (id: string, name: string, params: { width: number; theme: Theme }) =>
  figureOptions(
    ["race figure", id, name, params],
    (signal) =>
      unwrap(
        client.GET("/api/v1/races/{race_id}/figures/{name}", {
          params: { path: { race_id: id, name }, query: params },
          signal,
        }),
      ),
    "all",
  );
