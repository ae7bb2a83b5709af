import { Button, Group, Paper, Skeleton, Stack, Text, Title } from "@mantine/core";
import { IconChartLine, IconFlag, IconPlus } from "@tabler/icons-react";
import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { jobsQuery } from "../../api/queries";
import { DeleteButton } from "../../components/DeleteButton";
import { LinkButton } from "../../components/links";
import { Problem } from "../../components/Problem";
import { usePageTitle } from "../../components/usePageTitle";
import { isAtWork, isLive } from "../../lib/jobState";
import { MOST_COMPARED, MOST_RACERS } from "../../lib/races";
import { JobFilters } from "./JobFilters";
import { JobsTable } from "./JobsTable";

const route = getRouteApi("/jobs");

/** All jobs, newest first, live; older ones come as one scrolls. Choose some to race, compare or delete them. */
export function JobsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const [selected, setSelected] = useState<string[]>([]);
  const queries = useQueryClient();
  const query = useInfiniteQuery(jobsQuery(search));
  const jobs = query.data?.pages.flatMap((page) => page.items) ?? [];
  const running = jobs.filter(isAtWork).length;
  usePageTitle(running > 0 ? `● ${running} running · Jobs` : "Jobs");

  const chosen = jobs.filter((job) => selected.includes(job.id));
  const canDelete =
    chosen.length > 0 && chosen.length === selected.length && !chosen.some((job) => isLive(job.state));
  const forget = (gone: string[]) => {
    setSelected((ids) => ids.filter((id) => !gone.includes(id)));
    void queries.invalidateQueries({ queryKey: ["jobs"] });
  };
  const more = () => {
    if (query.hasNextPage && !query.isFetching && !query.isError) void query.fetchNextPage();
  };
  const filtered = Object.keys(search).length > 0;
  return (
    <Stack gap="md">
      <Group justify="space-between">
        <Title order={1} fz={24}>
          Jobs
        </Title>
        <Group gap="xs">
          <Button
            variant="light"
            leftSection={<IconFlag size={16} />}
            disabled={selected.length < 2 || selected.length > MOST_RACERS}
            onClick={() => void navigate({ to: "/race", search: { jobs: selected } })}
            data-testid="race-selected"
          >
            {selected.length < 2
              ? "Select two to race"
              : selected.length > MOST_RACERS
                ? `Select at most ${MOST_RACERS} to race`
                : `Race ${selected.length} jobs`}
          </Button>
          <Button
            variant="light"
            leftSection={<IconChartLine size={16} />}
            disabled={selected.length < 2 || selected.length > MOST_COMPARED}
            onClick={() => void navigate({ to: "/compare", search: { jobs: selected } })}
            data-testid="compare-selected"
          >
            Compare
          </Button>
          <DeleteButton jobs={chosen} disabled={!canDelete} onDeleted={forget} />
          <LinkButton to="/launch" leftSection={<IconPlus size={16} />}>
            Launch
          </LinkButton>
        </Group>
      </Group>
      <Paper p="sm">
        <JobFilters search={search} />
        {query.error && <Problem error={query.error} onRetry={() => void query.refetch()} />}
        {query.isPending && <Skeleton height={240} mt="sm" />}
        {query.data && jobs.length === 0 && (
          <Text c="dimmed" py="xl" ta="center" data-testid="jobs-empty">
            {filtered ? "No job matches these filters." : "No jobs yet. Launch the first one."}
          </Text>
        )}
        {jobs.length > 0 && (
          <>
            <JobsTable jobs={jobs} selected={selected} onSelect={setSelected} onEnd={more} />
            <Text size="xs" c="dimmed" ta="center" mt="sm" data-testid="jobs-count">
              {jobs.length} {jobs.length === 1 ? "job" : "jobs"}
              {query.hasNextPage && ", older ones follow"}
            </Text>
          </>
        )}
      </Paper>
    </Stack>
  );
}
