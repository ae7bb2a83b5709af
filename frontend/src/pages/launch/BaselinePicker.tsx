import { JobSelect } from "../../components/JobSelect";
import { errorAt } from "../../form/errors";
import { Described, type FieldProps } from "../../form/SchemaField";
import { STATES } from "../../lib/jobState";

/** The job to compare with, by name. */
export function BaselinePicker({ schema, path, value, errors, onChange }: FieldProps) {
  return (
    <JobSelect
      label="Baseline"
      description={<Described text={schema.description ?? ""} />}
      placeholder="none"
      value={typeof value === "string" ? value : null}
      describe={(job) => `${job.name} · ${job.planned_by}, ${job.workers}w · ${STATES[job.state].label}`}
      error={errorAt(errors, path)}
      clearable
      data-testid={`field-${path}`}
      onChange={onChange}
    />
  );
}
