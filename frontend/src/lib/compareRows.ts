import type { Job, Summary } from "../api/types";
import {
  formatBusy,
  formatFixed,
  formatPercent,
  formatRate,
  formatSpeedUp,
  formatStepTime,
  formatThroughput,
  NONE,
  NOT_MEASURED,
  ofWorker,
  wireText,
} from "./format";
import { STATES } from "./jobState";
import { WHY_NONE } from "./whyNone";

/** One row of the table of numbers: what it is, and its value for each job. */
export interface CompareRow {
  label: string;
  values: string[];
  /** Why there may be a dash. */
  none?: string;
  /** ... where it is another reason with the first job, which the others are compared with. */
  noneOfFirst?: string;
}

const EQUAL = {
  strong: "equal global batch (strong scaling)",
  weak: "equal batch per worker (weak scaling)",
} as const;

/** The rows of `trainyard compare`: the first job is the baseline. A summary that is still on its way is undefined. */
export function compareRows(jobs: Job[], summaries: (Summary | undefined)[]): CompareRow[] {
  const of = (show: (summary: Summary, index: number) => string) =>
    jobs.map((_, index) => {
      const summary = summaries[index];
      return summary ? show(summary, index) : "…";
    });
  const rehearsed = jobs.some((job) => job.rehearsed);
  const slowed = jobs.some((job) => job.slowed);
  return [
    { label: "strategy", values: jobs.map((job) => job.planned_by) },
    { label: "workers", values: jobs.map((job) => String(job.workers)) },
    ...(rehearsed ? [{ label: "compute", values: jobs.map((job) => job.rehearsed ?? "measured") }] : []),
    ...(slowed ? [{ label: "slowed", values: jobs.map((job) => job.slowed ?? NONE) }] : []),
    { label: "network", values: jobs.map(networkText) },
    { label: "state", values: jobs.map((job) => STATES[job.state].label) },
    {
      label: "iteration",
      none: WHY_NONE.steps,
      values: of((summary) => formatStepTime(summary.iteration_ms)),
    },
    {
      label: "computing",
      none: WHY_NONE.steps,
      values: of(({ compute_ms, compute_worker }) => ofWorker(formatStepTime(compute_ms), compute_worker)),
    },
    {
      label: "exposed",
      none: WHY_NONE.steps,
      values: of(({ exposed_ms, exposed_worker }) => ofWorker(formatStepTime(exposed_ms), exposed_worker)),
    },
    { label: "input", none: WHY_NONE.steps, values: of((summary) => formatStepTime(summary.input_ms)) },
    {
      label: "processors",
      none: WHY_NONE.processors,
      values: of((summary) => processorsText(summary.processors)),
    },
    {
      label: "throughput",
      none: WHY_NONE.steps,
      values: of(({ samples_per_s }) =>
        samples_per_s === null ? NONE : `${formatThroughput(samples_per_s)} samples/s`,
      ),
    },
    {
      label: "on the wire",
      none: WHY_NONE.wire,
      values: of((summary) => wireText(summary, "/step")),
    },
    {
      label: "test accuracy",
      none: WHY_NONE.accuracy,
      values: of((summary) => formatPercent(summary.test_accuracy)),
    },
    {
      label: "to the target",
      none: WHY_NONE.target,
      values: of(({ time_to_target_s: s }) => (s === null ? NONE : `${formatFixed(s, 1)} s`)),
    },
    {
      label: "speed-up",
      none: WHY_NONE.speedUp,
      values: of(({ speed_up }, index) => (index === 0 ? "1" : formatSpeedUp(speed_up?.value))),
    },
    {
      label: "95 %",
      none: WHY_NONE.interval,
      noneOfFirst: WHY_NONE.first,
      values: of(({ speed_up }, index) => (index === 0 ? NONE : intervalText(speed_up))),
    },
    {
      label: "compared at",
      none: WHY_NONE.scaling,
      noneOfFirst: WHY_NONE.first,
      values: of(({ speed_up }, index) =>
        index === 0 || !speed_up?.kind || !speed_up.comparable ? NONE : EQUAL[speed_up.kind],
      ),
    },
    {
      label: "convergence speed-up",
      none: WHY_NONE.convergence,
      noneOfFirst: WHY_NONE.target,
      values: of((summary, index) =>
        index === 0
          ? summary.time_to_target_s === null
            ? NONE
            : "1"
          : formatSpeedUp(summary.convergence_speed_up),
      ),
    },
  ];
}

/** What a reader must know of each speed-up, in the service's words: by job, those without a word left out. */
export function caveats(
  jobs: Job[],
  summaries: (Summary | undefined)[],
): { id: string; name: string; text: string }[] {
  return jobs.flatMap((job, index) => {
    const text = index === 0 ? null : summaries[index]?.speed_up?.why_not;
    return text ? [{ id: job.id, name: job.name, text }] : [];
  });
}

function processorsText(found: Summary["processors"]): string {
  return found ? `${formatBusy(found.busy)} busy, ${formatBusy(found.own)} by this job` : NOT_MEASURED;
}

function intervalText(found: Summary["speed_up"]): string {
  if (found?.low === null || found?.low === undefined || found.high === null) return NONE;
  return `${formatFixed(found.low, 2)} to ${formatFixed(found.high, 2)}`;
}

type Limited = Pick<Job, "rate_bps" | "fastest_bps" | "hosts">;

/** `150 Mbit/s`, or `150 Mbit/s to 600 Mbit/s` where hosts' rates differ. */
export function limitText({ rate_bps, fastest_bps }: Pick<Job, "rate_bps" | "fastest_bps">): string {
  if (rate_bps === null) return "not limited";
  const slowest = formatRate(rate_bps);
  return fastest_bps === null || fastest_bps === rate_bps
    ? slowest
    : `${slowest} to ${formatRate(fastest_bps)}`;
}

/** A job's rate, and who keeps it: the links of its lab, or our program. */
export function networkText({ rate_bps, fastest_bps, hosts }: Limited): string {
  const limit = limitText({ rate_bps, fastest_bps });
  if (hosts !== null) return `${limit} (${hosts} ${hosts === 1 ? "host" : "hosts"})`;
  return rate_bps === null ? limit : `${limit} (software-limited)`;
}
