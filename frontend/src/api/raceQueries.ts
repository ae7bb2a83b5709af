import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
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
