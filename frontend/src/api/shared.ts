import { keepPreviousData, type QueryKey, queryOptions } from "@tanstack/react-query";
import { deepEqual } from "@tanstack/react-router";
import { timed } from "../live/costs";
import type { PlotlyFigure } from "./types";

// What several queries have in common.

// A figure is a megabyte or more, and the service has it at hand: those out of sight are soon let go.
// One that comes again unchanged stays the one that is drawn; of another nothing is kept: to look for what is equal in
// both, value by value, takes as long as to draw it.
export const FIGURE = {
  gcTime: 5_000,
  structuralSharing: (before: unknown, now: unknown) => (deepEqual(before, now) ? before : now),
};

/** A figure of `jobs`; the one before stays until it is there. What the service answers has Plotly's schema, not ours. */
export const figureOptions = (
  queryKey: QueryKey,
  ask: (signal: AbortSignal) => Promise<unknown>,
  jobs: string[] | "all",
) =>
  queryOptions({
    queryKey,
    queryFn: ({ signal }) => timed(queryKey, () => ask(signal) as Promise<PlotlyFigure>),
    placeholderData: keepPreviousData,
    ...FIGURE,
    meta: { jobs },
  });

/** A list that comes in pages, each with the cursor of the next. */
export const PAGED = {
  initialPageParam: null as string | null,
  getNextPageParam: (page: { next_cursor: string | null }) => page.next_cursor,
};
