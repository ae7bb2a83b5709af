import { useQuery } from "@tanstack/react-query";
import { leftQueueQuery, recentJobsQuery } from "../../api/queries";
import type { JobSummary } from "../../api/types";
import { isAtWork } from "../../lib/jobState";
import { findRaces, namesOf } from "../../lib/races";

const MOST_CHOICES = 4;

/** The newest jobs, and those of them that belong together, also behind a long queue. */
export function useGroups() {
  const recent = useQuery(recentJobsQuery);
  const newest = recent.data?.items ?? [];
  const hidden =
    recent.data?.next_cursor != null &&
    newest.some((job) => job.state === "queued") &&
    !newest.some(isAtWork);
  const earlier = useQuery({ ...leftQueueQuery, enabled: hidden });
  const known = hidden ? withoutTwins([...(earlier.data?.items ?? []), ...newest]) : newest;
  const choice = findRaces(known)
    .filter((group) => group.jobs.length > 1)
    .slice(0, MOST_CHOICES)
    .toReversed();
  return {
    known,
    choice,
    /** What each of `choice` is called. */
    names: namesOf(choice),
    isPending: recent.isPending || (hidden && earlier.isPending),
    error: recent.error ?? earlier.error,
    refetch: () => void recent.refetch(),
  };
}

export function keyOf(jobs: JobSummary[]): string {
  return jobs.map((job) => job.id).join(",");
}

function withoutTwins(jobs: JobSummary[]): JobSummary[] {
  return [...new Map(jobs.map((job) => [job.id, job])).values()];
}
