import type { JobState, JobSummary } from "../api/types";

interface Shown {
  label: string;
  color: string;
  /** Something still moves: the page watches it. */
  live: boolean;
}

/** How each state is shown. The compiler holds the list complete. */
export const STATES: Record<JobState | "preempted", Shown> = {
  queued: { label: "queued", color: "gray", live: true },
  placing: { label: "placing", color: "cyan", live: true },
  starting: { label: "starting", color: "cyan", live: true },
  running: { label: "running", color: "blue", live: true },
  preempting: { label: "preempting", color: "violet", live: true },
  stopping_cancelled: { label: "cancelling", color: "orange", live: true },
  stopping_failed: { label: "failing", color: "orange", live: true },
  stopping_succeeded: { label: "finishing", color: "teal", live: true },
  succeeded: { label: "succeeded", color: "teal", live: false },
  failed: { label: "failed", color: "red", live: false },
  cancelled: { label: "cancelled", color: "gray", live: false },
  // Of attempts alone.
  preempted: { label: "preempted", color: "violet", live: false },
};

/** Those that a job can be in. One that made room for another is queued again. */
export const JOB_STATES = Object.keys(STATES).filter((state) => state !== "preempted") as JobState[];

export const LEFT_QUEUE = Object.keys(STATES).filter((state) => state !== "queued");

export function isLive(state: JobState): boolean {
  return STATES[state].live;
}

/** Whether it holds devices, or is about to. */
export function isAtWork({ state }: { state: JobState }): boolean {
  return isLive(state) && state !== "queued";
}

/** Whether the job can still be cancelled. */
export function isStoppable(state: JobState): boolean {
  return isLive(state) && !state.startsWith("stopping");
}

/** How long a running job will take from here, in s; null where that is not known. */
export function secondsLeft(job: JobSummary): number | null {
  if (job.state !== "running" || job.steps === null || job.iteration_ms === null) return null;
  return (Math.max(job.steps - (job.step ?? 0), 0) * job.iteration_ms) / 1000;
}

/** How long a job ran, or has run until `now` (ms since 1970), in s; null before it started. */
export function secondsRun(job: Pick<JobSummary, "started_at" | "ended_at">, now: number): number | null {
  if (job.started_at === null) return null;
  const end = job.ended_at === null ? now : Date.parse(job.ended_at);
  return Math.max(0, end - Date.parse(job.started_at)) / 1000;
}

/** Share of the steps that are done, 0 to 1; null where the length is not known. */
export function progress(job: { step: number | null; steps: number | null; state: JobState }): number | null {
  if (job.state === "succeeded") return 1;
  if (job.steps === null || job.steps === 0) return null;
  return Math.min(1, (job.step ?? 0) / job.steps);
}
