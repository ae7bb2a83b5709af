import type { JobState } from "../api/types";

/** What a notice says: which job changed, at which revision, and its latest values; never bulk data. */
export interface Notice {
  job_id: string;
  revision: number;
  state: JobState;
  step: number | null;
  steps: number | null;
  loss: number | null;
  samples_per_s: number | null;
  /** The label of a rehearsal, which every one of its figures carries; null for a job that trains. */
  rehearsed: string | null;
  /** Which workers are slowed on purpose; null for a job without. */
  slowed: string | null;
}

/** The part of a job's row that notices keep fresh. */
export type Noticed = Pick<Notice, "revision" | "state" | "step" | "steps" | "loss" | "samples_per_s"> & {
  id: string;
};

/** A notice from an event's data; null where it names no job. */
export function parseNotice(data: string): Notice | null {
  const value: unknown = JSON.parse(data);
  if (typeof value !== "object" || value === null || !("job_id" in value) || typeof value.job_id !== "string")
    return null;
  return value as Notice;
}

/**
 * The row with what the notice knows. The same row, by identity, where the notice is about another job or is not
 * newer: notices may arrive after the answer of a request that was asked later.
 */
export function mergeNotice<Row extends Noticed>(row: Row, notice: Notice): Row {
  if (row.id !== notice.job_id || notice.revision <= row.revision) return row;
  const merged = { ...row, revision: notice.revision };
  if (notice.state) merged.state = notice.state;
  // A notice leaves out what has not changed.
  for (const field of ["step", "steps", "loss", "samples_per_s"] as const) {
    const value = notice[field];
    if (value !== undefined && value !== null) merged[field] = value;
  }
  return merged;
}

/** Rows with a notice merged into them: the same array where none of them changed. */
export function mergeIntoRows<Row extends Noticed>(rows: Row[], notice: Notice): Row[] {
  const merged = rows.map((row) => mergeNotice(row, notice));
  return merged.every((row, index) => row === rows[index]) ? rows : merged;
}
