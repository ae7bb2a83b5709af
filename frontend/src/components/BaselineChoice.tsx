import type { Job } from "../api/types";
import { JobSelect } from "./JobSelect";

interface Props {
  job: Job;
  /** Its own, unless another is chosen. */
  baseline: string | undefined;
  onBaseline: (id: string | undefined) => void;
}

/** The job that the speed-up is measured against. */
export function BaselineChoice({ job, baseline, onBaseline }: Props) {
  const own = job.baseline_id;
  return (
    <JobSelect
      size="xs"
      w={260}
      aria-label="Compared with"
      placeholder="Compare with …"
      value={baseline ?? own}
      describe={(other) =>
        `${other.name} · ${other.planned_by}, ${other.workers}w${other.id === own ? " (its baseline)" : ""}`
      }
      allowed={(other) => other.id !== job.id && other.step !== null}
      clearable={baseline !== undefined}
      data-testid="baseline-choice"
      onChange={(id) => onBaseline(id === null || id === own ? undefined : id)}
    />
  );
}
