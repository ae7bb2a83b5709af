import type { JobSummary, Summary } from "../api/types";
import type { Cell } from "./csv";

const COLUMNS: [string, (job: JobSummary, summary: Summary | undefined) => Cell][] = [
  ["name", (job) => job.name],
  ["id", (job) => job.id],
  ["strategy", (job) => job.planned_by],
  ["workers", (job) => job.workers],
  ["rehearsed", (job) => job.rehearsed],
  ["slowed", (job) => job.slowed],
  ["rate (bit/s)", (job) => job.rate_bps],
  ["hosts", (job) => job.hosts],
  ["state", (job) => job.state],
  ["iteration (ms)", (_, found) => found?.iteration_ms],
  ["computing (ms)", (_, found) => found?.compute_ms],
  ["computing, of worker", (_, found) => found?.compute_worker],
  ["exposed (ms)", (_, found) => found?.exposed_ms],
  ["exposed, of worker", (_, found) => found?.exposed_worker],
  ["waiting for input (ms)", (_, found) => found?.input_ms],
  ["processors busy (share)", (_, found) => found?.processors?.busy],
  ["processors by this job (share)", (_, found) => found?.processors?.own],
  ["samples/s", (_, found) => found?.samples_per_s],
  ["on the wire (B/step)", (_, found) => found?.wire_bytes_per_step],
  ["on the wire, counted (B/step)", (_, found) => found?.counted_bytes_per_step],
  ["test accuracy (share)", (_, found) => found?.test_accuracy],
  ["to the target (s)", (_, found) => found?.time_to_target_s],
];
const COMPARED: [string, (summary: Summary | undefined) => Cell][] = [
  ["speed-up", (found) => found?.speed_up?.value],
  ["speed-up, low end of 95 %", (found) => found?.speed_up?.low],
  ["speed-up, high end of 95 %", (found) => found?.speed_up?.high],
  ["scaling", (found) => found?.speed_up?.kind],
  ["convergence speed-up", (found) => found?.convergence_speed_up],
  ["speed-up caveat", (found) => found?.speed_up?.why_not],
];

/** What Compare's table of numbers says as rows of a file: a job each, the first one is the baseline; values as they were
 * measured, with units in the head. */
export function compareCsv(jobs: JobSummary[], summaries: (Summary | undefined)[]): Cell[][] {
  return [
    [...COLUMNS, ...COMPARED].map(([head]) => head),
    ...jobs.map((job, place) => [
      ...COLUMNS.map(([, value]) => value(job, summaries[place])),
      // Of the first job these are of a baseline of its own, of which this table does not speak.
      ...COMPARED.map(([, value]) => (place === 0 ? null : value(summaries[place]))),
    ]),
  ];
}

/** The same of jobs side by side, each beside its own baseline. */
export function sideBySideCsv(jobs: JobSummary[], summaries: (Summary | undefined)[]): Cell[][] {
  return [
    [...COLUMNS.map(([head]) => head), "baseline", ...COMPARED.map(([head]) => head)],
    ...jobs.map((job, place) => {
      const found = summaries[place];
      const known = COLUMNS.map(([, value]) => value(job, found));
      return [...known, found?.speed_up?.baseline_name, ...COMPARED.map(([, value]) => value(found))];
    }),
  ];
}
