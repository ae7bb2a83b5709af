import type { JobSummary } from "../api/types";
import type { Cell } from "./csv";
import { secondsRun } from "./jobState";

const COLUMNS: [string, (job: JobSummary, now: number) => Cell][] = [
  ["name", (job) => job.name],
  ["id", (job) => job.id],
  ["state", (job) => job.state],
  ["strategy", (job) => job.planned_by],
  ["model", (job) => job.model],
  ["data", (job) => job.dataset],
  ["workers", (job) => job.workers],
  ["global batch", (job) => job.global_batch],
  ["rate (bit/s)", (job) => job.rate_bps],
  ["rehearsed", (job) => job.rehearsed],
  ["slowed", (job) => job.slowed],
  ["step", (job) => job.step],
  ["steps", (job) => job.steps],
  ["loss", (job) => job.loss],
  ["test accuracy (share)", (job) => job.test_accuracy],
  ["samples/s", (job) => job.samples_per_s],
  ["iteration (ms)", (job) => job.iteration_ms],
  ["speed-up", (job) => job.speed_up],
  ["speed-up caveat", (job) => job.speed_up_caveat],
  ["owner", (job) => job.owner],
  ["created", (job) => job.created_at],
  ["started", (job) => job.started_at],
  ["ended", (job) => job.ended_at],
  ["took (s)", secondsRun],
  ["tags", (job) => job.tags.join(", ")],
  ["note", (job) => job.note],
];

/** Jobs as rows of a file: their values, with units in the head. What runs has taken so long until `now` (ms since 1970). */
export function jobRows(jobs: JobSummary[], now: number): Cell[][] {
  return [COLUMNS.map(([head]) => head), ...jobs.map((job) => COLUMNS.map(([, value]) => value(job, now)))];
}
