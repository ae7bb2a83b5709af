import { Group, Select, Skeleton, Stack, Text, Title } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { jobQuery, summaryQuery } from "../../api/queries";
import { ByControl } from "../../components/ByControl";
import { ChooseJobs } from "../../components/ChooseJobs";
import { Problem } from "../../components/Problem";
import { usePageTitle } from "../../components/usePageTitle";
import { toldApart } from "../../lib/apart";
import { MOST_COMPARED } from "../../lib/races";
import { type CompareSearch, MEASURES } from "../../lib/search";
import { withZoom, zoomsOf } from "../../lib/zoom";
import { ChosenJobs } from "./ChosenJobs";
import { CompareFigure } from "./CompareFigure";
import { NumbersTable } from "./NumbersTable";
import { SettingsTable } from "./SettingsTable";
import { SideBySide } from "./SideBySide";

const route = getRouteApi("/compare");
const AS_SERVED = "auto";
/** Percent of the points that a moving average spans; the axis of each chart says what was done. */
const SMOOTHINGS = [
  { value: AS_SERVED, label: "Long losses smoothed" },
  { value: "0", label: "Nothing smoothed" },
  ...[4, 8, 20, 50].map((percent) => ({ value: String(percent), label: `All smoothed over ${percent} %` })),
];

/** Any jobs beside one another: their figures, their curves, the settings in which they differ. */
export function ComparePage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const ids = search.jobs ?? [];
  const { jobs, pending, error } = useQueries({
    queries: ids.map(jobQuery),
    combine: (results) => ({
      jobs: toldApart(results.flatMap((result) => result.data ?? [])),
      pending: results.some((result) => result.isPending),
      error: results.find((result) => result.error)?.error ?? null,
    }),
  });
  // All are asked for at once: figures need not wait for what the jobs are.
  const summaries = useQueries({
    queries: ids.map((id, index) => summaryQuery(id, index === 0 ? undefined : ids[0])),
    combine: (results) => new Map(results.map((result, index) => [ids[index], result.data])),
  });
  usePageTitle(ids.length > 0 ? `Compare ${ids.length} jobs` : "Compare");
  const set = (change: CompareSearch) =>
    void navigate({ search: (previous) => ({ ...previous, ...change }), replace: true, resetScroll: false });
  const by = search.by ?? "step";
  const zooms = zoomsOf(search.zoom);
  const several = ids.length > 1;
  const drawn = error ? jobs.map((job) => job.id) : ids;
  return (
    <Stack gap="md">
      <Group justify="space-between" gap="xs">
        <Title order={1} fz={24}>
          Compare
        </Title>
        {several && (
          <Group gap="xs">
            <Select
              size="xs"
              w={190}
              aria-label="Smoothing of the curves"
              data-testid="compare-smooth"
              data={SMOOTHINGS}
              allowDeselect={false}
              value={search.smooth === undefined ? AS_SERVED : String(search.smooth)}
              onChange={(value) => set({ smooth: value === AS_SERVED ? undefined : Number(value) })}
            />
            <ByControl testId="compare-by" by={by} onBy={(by) => set({ by, zoom: undefined })} />
          </Group>
        )}
      </Group>
      {error && <Problem error={error} />}
      {ids.length === 0 && (
        <ChooseJobs
          fewest={2}
          most={MOST_COMPARED}
          action={(count) => (count > 1 ? `Compare ${count} jobs` : "Compare")}
          hint="Tick two or more. The first one is the baseline of the others' speed-up."
          first="baseline"
          onJobs={(chosen) => set({ jobs: chosen })}
        />
      )}
      {pending && <Skeleton height={200} />}
      {jobs.length > 0 && !pending && <ChosenJobs jobs={jobs} onJobs={(chosen) => set({ jobs: chosen })} />}
      {ids.length === 1 && jobs[0] && (
        <Text c="dimmed" ta="center" py="xl" data-testid="compare-alone">
          It takes two to compare: add a second job above. Its speed-up is then over {jobs[0].name}.
        </Text>
      )}
      {several && jobs.length > 0 && !pending && (
        <NumbersTable
          jobs={jobs}
          summaries={jobs.map((job) => summaries.get(job.id))}
          onJobs={(chosen) => set({ jobs: chosen })}
        />
      )}
      {several &&
        drawn.length > 0 &&
        MEASURES.map((what) => (
          <CompareFigure
            key={what}
            ids={drawn}
            what={what}
            by={by}
            smooth={search.smooth}
            zoom={zooms[what]}
            onXRange={(range) => set({ zoom: withZoom(search.zoom, what, range) })}
          />
        ))}
      {several && jobs.length > 0 && !pending && (
        <>
          <SettingsTable jobs={jobs} />
          <SideBySide jobs={jobs} figure={search.figure} onFigure={(figure) => set({ figure })} />
        </>
      )}
    </Stack>
  );
}
