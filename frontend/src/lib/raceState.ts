import type { RaceSummary } from "../api/types";

const COLORS = { running: "blue", finished: "teal", cancelled: "gray" } as const;

/** What a race's badge says: how it stands, whether it waits, and whether jobs of it failed. */
export function raceState({ state, waits, jobs_ended, jobs_failed }: RaceSummary): {
  text: string;
  color: string;
} {
  if (waits) return { text: "waiting", color: "gray" };
  if (state !== "finished" || jobs_failed === 0) return { text: state, color: COLORS[state] };
  if (jobs_failed === jobs_ended) return { text: "all failed", color: "red" };
  return { text: `finished, ${jobs_failed} failed`, color: "orange" };
}
