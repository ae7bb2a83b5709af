import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { recentJobsQuery } from "../../api/queries";
import { errorAt } from "../../form/errors";
import { Described, type FieldProps } from "../../form/SchemaField";
import { STATES } from "../../lib/jobState";

/** The job to compare with, by name. */
export function BaselinePicker({ schema, path, value, errors, onChange }: FieldProps) {
  const jobs = useQuery(recentJobsQuery).data?.items ?? [];
  const known = jobs.map((job) => ({
    value: job.id,
    label: `${job.name} · ${job.planned_by}, ${job.workers}w · ${STATES[job.state].label}`,
  }));
  const current = typeof value === "string" ? value : null;
  const data =
    current && !known.some((job) => job.value === current)
      ? [{ value: current, label: current }, ...known]
      : known;
  return (
    <Select
      label="Baseline"
      description={<Described text={schema.description ?? ""} />}
      placeholder="none"
      data={data}
      value={current}
      error={errorAt(errors, path)}
      clearable
      searchable
      data-testid={`field-${path}`}
      onChange={onChange}
    />
  );
}
