import type { JobSummary } from "../api/types";

/** Jobs that are worth comparing: they share a baseline, or train the same model on the same data at one rate, or rehearse it alike, with the
 * same workers slowed. */
export interface RaceGroup {
  key: string;
  label: string;
  /** Oldest first: the order in which they were submitted, baseline first. */
  jobs: JobSummary[];
}

/** The service races at most so many. */
export const MOST_RACERS = 8;
/** ... and compares so many. */
export const MOST_COMPARED = 24;

/** All races among `jobs`, newest first. A group of one is no race, but it may become one. Of a group that is too
 * large for one race, the first (the baseline) and the newest are left. */
export function findRaces(jobs: JobSummary[]): RaceGroup[] {
  const byId = new Map(jobs.map((job) => [job.id, job]));
  const referenced = new Set(jobs.flatMap((job) => (job.baseline_id ? [job.baseline_id] : [])));
  const groups = new Map<string, JobSummary[]>();
  for (const job of jobs) {
    const root = rootOf(job, byId);
    const key =
      root !== job.id || referenced.has(job.id)
        ? `baseline ${root}`
        : `same ${job.model} ${job.dataset} ${job.rate_bps ?? ""} ${job.fastest_bps ?? ""} ${job.hosts ?? ""} ${job.rehearsed ?? ""} ${job.slowed ?? ""}`;
    groups.set(key, [...(groups.get(key) ?? []), job]);
  }
  return [...groups]
    .map(([key, members]) => {
      const ordered = members.toSorted(
        (a, b) => a.created_at.localeCompare(b.created_at) || a.id.localeCompare(b.id),
      );
      const first = ordered[0] as JobSummary;
      const racers = ordered.length > MOST_RACERS ? [first, ...ordered.slice(1 - MOST_RACERS)] : ordered;
      return {
        key,
        label: `${first.model} on ${first.dataset}${first.rehearsed ? ", rehearsed" : ""}${first.slowed ? ", slowed" : ""}`,
        jobs: racers,
      };
    })
    .toSorted((a, b) => newest(b).localeCompare(newest(a)));
}

/** What each group is called where several stand beside one another: with its first job, and when that was submitted, where
 * less would be the same as another's. */
export function namesOf(groups: RaceGroup[]): string[] {
  const unlike = (names: string[], more: (group: RaceGroup) => string | undefined) =>
    names.map((name, place) =>
      names.filter((other) => other === name).length > 1
        ? `${name}, ${more(groups[place] as RaceGroup)}`
        : name,
    );
  const plain = groups.map(({ label }) => label);
  const first = unlike(plain, ({ jobs }) => jobs[0]?.name);
  return unlike(first, ({ jobs }) => jobs[0] && new Date(jobs[0].created_at).toLocaleString());
}

function rootOf(job: JobSummary, byId: Map<string, JobSummary>): string {
  let current = job;
  for (const seen = new Set<string>(); current.baseline_id && !seen.has(current.id); ) {
    seen.add(current.id);
    const next = byId.get(current.baseline_id);
    if (!next) return current.baseline_id;
    current = next;
  }
  return current.id;
}

function newest(group: RaceGroup): string {
  return group.jobs.at(-1)?.created_at ?? "";
}
