import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { recentJobsQuery } from "../api/queries";
import type { Job } from "../api/types";

interface Props {
  job: Job;
  /** Its own, unless another is chosen. */
  baseline: string | undefined;
  onBaseline: (id: string | undefined) => void;
}

/** The job that the speed-up is measured against. */
export function BaselineChoice({ job, baseline, onBaseline }: Props) {
  const jobs = useQuery(recentJobsQuery).data?.items ?? [];
  const others = jobs.filter((other) => other.id !== job.id && other.step !== null);
  const own = job.baseline_id;
  const chosen = baseline ?? own;
  const known = others.map((other) => ({
    value: other.id,
    label: `${other.name} · ${other.planned_by}, ${other.workers}w${other.id === own ? " (its baseline)" : ""}`,
  }));
  const data =
    chosen && !known.some((other) => other.value === chosen)
      ? [{ value: chosen, label: chosen }, ...known]
      : known;
  return (
    <Select
      size="xs"
      w={260}
      aria-label="Compared with"
      placeholder="Compare with …"
      data={data}
      value={chosen}
      searchable
      clearable={baseline !== undefined}
      data-testid="baseline-choice"
      onChange={(id) => onBaseline(id === null || id === own ? undefined : id)}
    />
  );
}
