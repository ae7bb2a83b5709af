import type { QueryClient } from "@tanstack/react-query";
import {
  devicesQuery,
  jobGroupsQuery,
  jobQuery,
  jobsQuery,
  queueQuery,
  recentJobsQuery,
  specificationQuery,
  summaryQuery,
} from "./api/queries";
import { rankingsQuery } from "./api/raceQueries";
import { nodesQuery } from "./api/shareQueries";
import { loadPlotly } from "./components/plotly";
import {
  type CompareSearch,
  groupFilter,
  type JobSearch,
  type JobsSearch,
  jobsFilter,
  NO_GROUP,
} from "./lib/search";

// What a page shows first is asked for while its code is still on its way; the page finds it under the same key.

export function prefetchJobs(queries: QueryClient, search: JobsSearch): void {
  const filter = jobsFilter(search);
  const { group, open, sort } = search;
  if (group === undefined) {
    void queries.prefetchInfiniteQuery(jobsQuery({ ...filter, sort }));
    return;
  }
  void queries.prefetchQuery(jobGroupsQuery(group, filter));
  if (open === undefined) return;
  const within = groupFilter(group, open === NO_GROUP ? null : open);
  void queries.prefetchInfiniteQuery(jobsQuery({ ...filter, ...within, sort }));
}

export function prefetchCompared(queries: QueryClient, { jobs = [] }: CompareSearch): void {
  if (drawsCompared({ jobs })) prefetchDrawing();
  jobs.forEach((id, index) => {
    void queries.prefetchQuery(jobQuery(id));
    void queries.prefetchQuery(summaryQuery(id, index === 0 ? undefined : jobs[0]));
  });
}

/** The jobs are what the page needs before it can ask for their figure. */
export function prefetchStepByStep(queries: QueryClient, { jobs = [] }: CompareSearch): void {
  if (!drawsCompared({ jobs })) return;
  prefetchDrawing();
  for (const id of jobs) void queries.prefetchQuery(jobQuery(id));
  void queries.prefetchQuery(recentJobsQuery);
}

export function prefetchDevices(queries: QueryClient): void {
  void queries.prefetchQuery(devicesQuery);
  void queries.prefetchQuery(nodesQuery);
  void queries.prefetchQuery(queueQuery);
}

export function prefetchJob(queries: QueryClient, id: string, search: JobSearch): void {
  void queries.prefetchQuery(jobQuery(id));
  if (drawsJob(search)) prefetchDrawing();
  if ((search.tab ?? "overview") === "overview") {
    void queries.prefetchQuery(summaryQuery(id, search.baseline, search.attempt));
  } else if (search.tab === "spec") {
    void queries.prefetchQuery(specificationQuery(id, "yaml", false));
  }
}

/** Whether the page of a job shows figures. */
export function drawsJob({ tab = "overview" }: JobSearch): boolean {
  return ["overview", "timeline", "links", "staleness"].includes(tab);
}

/** Whether jobs were chosen, whose curves are drawn. */
export function drawsCompared({ jobs = [] }: CompareSearch): boolean {
  return jobs.length > 0;
}

/** What draws figures, which is larger than everything else, need not wait for their data. */
export function prefetchDrawing(): void {
  void loadPlotly();
}

export function prefetchRace(queries: QueryClient, id: string): void {
  void queries.prefetchQuery(rankingsQuery(id));
}
