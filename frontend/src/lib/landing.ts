import type { JobSummary, RaceSummary } from "../api/types";
import { isLive } from "./jobState";
import type { RaceGroup } from "./races";

/** Where a person begins. */
export type Landing = { page: "race"; id: string } | { page: "side by side" } | { page: "start" };

/** The newest race with a verdict, else the newest that was not cancelled; else the newest jobs side by side; else a
 * cancelled race, which says at least who took part; else the start page. `races` are given newest first. */
export function landing(races: RaceSummary[], groups: RaceGroup[]): Landing {
  const race = races.find(({ decided }) => decided) ?? races.find(({ state }) => state !== "cancelled");
  if (race) return { page: "race", id: race.id };
  if (groups.some(({ jobs }) => jobs.filter(isComparable).length > 1)) return { page: "side by side" };
  return races[0] ? { page: "race", id: races[0].id } : { page: "start" };
}

/** Whether there is something to see of it, or will be: not of a job that was cancelled in the queue. */
function isComparable(job: JobSummary): boolean {
  return job.started_at !== null || isLive(job.state);
}
