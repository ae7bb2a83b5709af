import { Anchor, Group, SegmentedControl, Skeleton, Stack, Text, Title } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { jobQuery } from "../../api/queries";
import { Problem } from "../../components/Problem";
import { usePageTitle } from "../../components/usePageTitle";
import { type CompareSearch, MEASURES } from "../../lib/search";
import { ChosenJobs } from "./ChosenJobs";
import { CompareFigure } from "./CompareFigure";
import { SettingsTable } from "./SettingsTable";
import { SideBySide } from "./SideBySide";

const route = getRouteApi("/compare");
const BY = { step: "Steps", samples: "Samples", bytes: "Bytes", time: "Time" } as const;

/** Any jobs beside one another: their curves, the settings in which they differ, their figures. */
export function ComparePage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const ids = search.jobs ?? [];
  const { jobs, pending, error } = useQueries({
    queries: ids.map(jobQuery),
    combine: (results) => ({
      jobs: results.flatMap((result) => result.data ?? []),
      pending: results.some((result) => result.isPending),
      error: results.find((result) => result.error)?.error ?? null,
    }),
  });
  usePageTitle(ids.length > 0 ? `Compare ${ids.length} jobs` : "Compare");
  const set = (change: CompareSearch) =>
    void navigate({ search: (previous) => ({ ...previous, ...change }), replace: true, resetScroll: false });
  return (
    <Stack gap="md">
      <Group justify="space-between" gap="xs">
        <Title order={1} fz={24}>
          Compare
        </Title>
        <SegmentedControl
          size="xs"
          aria-label="Over what"
          data-testid="compare-by"
          value={search.by ?? "step"}
          onChange={(by) => set({ by: by as CompareSearch["by"] })}
          data={Object.entries(BY).map(([value, label]) => ({ value, label }))}
        />
      </Group>
      {error && <Problem error={error} />}
      {ids.length === 0 && (
        <Text c="dimmed" data-testid="compare-empty">
          Nothing chosen yet. Tick jobs in the{" "}
          <Anchor component={Link} to="/jobs">
            list of jobs
          </Anchor>{" "}
          and compare them.
        </Text>
      )}
      {pending && <Skeleton height={200} />}
      {jobs.length > 0 && (
        <>
          <ChosenJobs jobs={jobs} onJobs={(chosen) => set({ jobs: chosen })} />
          {MEASURES.map((what) => (
            <CompareFigure key={what} ids={jobs.map((job) => job.id)} what={what} by={search.by ?? "step"} />
          ))}
          <SettingsTable jobs={jobs} />
          <SideBySide jobs={jobs} figure={search.figure} onFigure={(figure) => set({ figure })} />
        </>
      )}
    </Stack>
  );
}
