import type { Job } from "../api/types";
import { STATES } from "./jobState";

type Attempt = Pick<Job["attempts"][number], "sealed" | "state" | "reason">;

// Ends before any process of the attempt ran.
const NEVER_RAN: ReadonlySet<string | null> = new Set(["launch-failed", "launch-interrupted"]);

/** How much of an attempt's telemetry is at the server. */
export function arrival({ sealed, state, reason }: Attempt): string {
  if (sealed) return "all of it arrived";
  if (STATES[state as Job["state"]]?.live ?? true) return "still arriving";
  return NEVER_RAN.has(reason) ? "nothing was recorded" : "not all of it arrived";
}
