import type { Summary } from "../api/types";
import { baselineName } from "./apart";
import { formatDuration, formatPercent, formatSpeedUp } from "./format";

/** What an accuracy is of, where workers drift. */
export function accuracyOf(found: { accuracy_of?: string | null } | undefined): string | undefined {
  return found?.accuracy_of ? `Measured on ${found.accuracy_of}` : undefined;
}

/** What stands under a job's accuracy: when it reached its target, and how much sooner than its baseline did. */
export function accuracyNote(summary: Summary | undefined, job: { id: string; name: string }): string {
  if (!summary?.target_accuracy)
    return summary?.accuracy_of ? `of ${summary.accuracy_of}` : "last evaluation";
  const target = formatPercent(summary.target_accuracy);
  if (summary.time_to_target_s === null) return `target ${target}`;
  const reached = `${target} after ${formatDuration(summary.time_to_target_s)}`;
  if (summary.convergence_speed_up === null || !summary.speed_up) return reached;
  return `${reached}, ${formatSpeedUp(summary.convergence_speed_up)} as soon as ${baselineName(job, summary.speed_up)}`;
}
