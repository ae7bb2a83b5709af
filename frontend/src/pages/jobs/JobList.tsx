import { Skeleton, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import { jobsQuery } from "../../api/queries";
import type { JobSummary } from "../../api/types";
import { Problem } from "../../components/Problem";
import { TakeTable } from "../../components/TakeTable";
import { toldApart } from "../../lib/apart";
import { jobRows } from "../../lib/jobsCsv";
import type { JobsFilter } from "../../lib/search";
import { JobsTable } from "./JobsTable";

interface Props {
  filter: JobsFilter;
  sort: string | undefined;
  onSort: (sort: string | undefined) => void;
  selected: string[];
  onSelect: (ids: string[]) => void;
  /** Those that are there so far. */
  onJobs: (jobs: JobSummary[]) => void;
  /** What stands in place of an empty list. */
  empty: string;
}

/** Jobs of one filter in one order, live; more of them come as one scrolls. */
export function JobList({ filter, sort, onSort, selected, onSelect, onJobs, empty }: Props) {
  const query = useInfiniteQuery(jobsQuery({ ...filter, sort }));
  const pages = query.data?.pages;
  const jobs = useMemo(() => pages?.flatMap((page) => page.items) ?? [], [pages]);
  const named = useMemo(() => toldApart(jobs), [jobs]);
  useEffect(() => onJobs(named), [onJobs, named]);
  // Read while drawing: a query draws its readers anew for what they read, and what the table's end finds would else be
  // as it was when this was drawn last. A list drawn while it was asked for again never went on.
  const { hasNextPage, isFetching, isError } = query;
  const more = () => {
    if (hasNextPage && !isFetching && !isError) void query.fetchNextPage();
  };
  return (
    <>
      {query.error && <Problem error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton height={240} mt="sm" />}
      {query.data && jobs.length === 0 && (
        <Text c="dimmed" py="xl" ta="center" data-testid="jobs-empty">
          {empty}
        </Text>
      )}
      {jobs.length > 0 && (
        <>
          <TakeTable
            file="jobs"
            label={query.hasNextPage ? `CSV of the ${jobs.length} shown` : undefined}
            rows={() => jobRows(jobs, Date.now())}
          >
            <JobsTable
              jobs={named}
              selected={selected}
              onSelect={onSelect}
              sort={sort}
              onSort={onSort}
              onEnd={more}
            />
          </TakeTable>
          <Text size="xs" c="dimmed" ta="center" mt="sm" data-testid="jobs-count">
            {jobs.length} {jobs.length === 1 ? "job" : "jobs"}
            {query.hasNextPage && (sort === undefined ? ", older ones follow" : ", more follow")}
          </Text>
        </>
      )}
    </>
  );
}
