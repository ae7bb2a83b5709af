import type { RaceSummary } from "../api/types";

const COLORS = { running: "blue", finished: "teal", failed: "red", cancelled: "gray" } as const;

/** What a race's badge says: how it stands, whether it waits, and whether jobs of it failed. */
export function raceState({ state, waits, jobs_failed }: RaceSummary): {
  text: string;
  color: string;
} {
  if (waits) return { text: "waiting", color: "gray" };
  if (state === "failed") return { text: "all failed", color: COLORS.failed };
  if (state !== "finished" || jobs_failed === 0) return { text: state, color: COLORS[state] };
  return { text: `finished, ${jobs_failed} failed`, color: "orange" };
}
