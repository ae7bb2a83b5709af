import {
  Button,
  Group,
  Kbd,
  Paper,
  SegmentedControl,
  Skeleton,
  Spoiler,
  Stack,
  Text,
  Title,
  useComputedColorScheme,
} from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useQueries, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useRef } from "react";
import { jobQuery, raceQuery } from "../../api/queries";
import type { JobSummary, PlotlyFigure, Race } from "../../api/types";
import { HowToReadThis } from "../../components/HowToReadThis";
import { LongestWaits } from "../../components/LongestWaits";
import { PlotlyChart, type XRange } from "../../components/PlotlyChart";
import { Problem } from "../../components/Problem";
import { TimeKeys } from "../../components/TimeKeys";
import { useKeys } from "../../components/useKeys";
import { usePageTitle } from "../../components/usePageTitle";
import { useScreen } from "../../components/useScreen";
import { useTimeKeys } from "../../components/useTimeKeys";
import { WhyPanel } from "../../components/WhyPanel";
import { toldApart } from "../../lib/apart";
import { formatPercent } from "../../lib/format";
import { isAtWork, progress } from "../../lib/jobState";
import { type TimelineMeta, type TimelineView, windowAfter } from "../../lib/timeline";
import { formatWait, parseWait, type WaitKey, keyOf as waitKey, waitOfBar } from "../../lib/why";
import { drawn } from "../../live/costs";
import { AskJobs } from "./AskJobs";
import { RaceTable } from "./RaceTable";
import { RaceWaiting } from "./RaceWaiting";
import { StepControl, type StepNeighbours } from "./StepControl";
import { keyOf, useGroups } from "./useGroups";

const route = getRouteApi("/race");
/** Four lines, on a phone five: where many jobs do not compare, the reasons fill a screen. */
const HEADLINE_PX = 135;

/** Jobs side by side, where some were chosen; else it asks which. */
export function RacePage() {
  const { jobs } = route.useSearch();
  const navigate = route.useNavigate();
  if (!jobs) return <AskJobs onJobs={(chosen) => void navigate({ search: { jobs: chosen } })} />;
  return <StepByStep ids={jobs} />;
}

/** Aligned by step on one time axis, with what decided it in one sentence. */
function StepByStep({ ids }: { ids: string[] }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { known, choice, names, ...recent } = useGroups();
  const chosen = useChosenJobs(ids);
  const jobs = chosen.jobs;
  const started = jobs.filter((job) => job.step !== null).map((job) => job.id);
  // Mostly all have started: their race need not wait until each has said so.
  const asked = chosen.isPending ? ids : started;

  const frame = useRef<HTMLDivElement>(null);
  const { visible, width } = useScreen(frame);
  const theme = useComputedColorScheme("light");
  const options = raceQuery(asked, {
    theme,
    width,
    step: search.step,
    from_ns: search.from_ns,
    to_ns: search.to_ns,
    why: search.why,
    why_job: search.why_job,
  });
  const race = useQuery({ ...options, enabled: visible && width > 0 && asked.length > 1 });
  const shown =
    started.length > 1 && race.data?.step != null ? { ...race.data, step: race.data.step } : undefined;
  const figure = shown?.figure as unknown as PlotlyFigure | undefined;

  const goTo = (step: number | undefined) =>
    navigate({
      search: (previous) => ({
        ...previous,
        step,
        from_ns: undefined,
        to_ns: undefined,
        why: undefined,
        why_job: undefined,
      }),
      replace: true,
      resetScroll: false,
    });
  // Within a step what is explained stays.
  const look = ({ step, from_ns, to_ns }: TimelineView) =>
    navigate({
      search: (previous) => ({ ...previous, step, from_ns, to_ns }),
      replace: true,
      resetScroll: false,
    });
  const explain = (job: number | undefined, wait: WaitKey | undefined) =>
    navigate({
      search: (previous) => ({
        ...previous,
        // A step of its own: the wait is of this one, also when newer ones come.
        step: wait ? shown?.step : previous.step,
        why: wait && formatWait(wait),
        why_job: wait && (racers[job ?? 0] as string),
      }),
      replace: true,
      resetScroll: false,
    });
  // Every job's time counts from its own start of the step.
  const meta: TimelineMeta = { ...figure?.layout.meta, origin_ns: 0 };
  const racers = (figure?.layout.meta?.jobs as string[] | undefined) ?? [];
  const waits = meta.waits ?? [];
  const wait = parseWait(search.why);
  const nameOf = (id: string | undefined) => jobs.find((job) => job.id === id)?.name ?? "";
  const neighbours = stepsAround(shown);
  const move = (step: number | null) => step !== null && goTo(step);
  useKeys({
    ArrowLeft: () => move(neighbours.previous),
    ArrowRight: () => move(neighbours.next),
    f: () => goTo(search.step === undefined ? shown?.step : undefined),
    Escape: () => wait && explain(undefined, undefined),
  });
  // A drag or a wheel fires many events; the service is asked once it rests.
  const zoomed = useDebouncedCallback((range: XRange, drawnOf: TimelineMeta) => {
    const view = windowAfter(range, drawnOf);
    if (view) look(view);
  }, 200);
  useTimeKeys(search.from_ns === undefined ? meta : search, (window) =>
    look({ step: search.step ?? shown?.step, ...window }),
  );

  const ahead = known.find((job) => isAtWork(job) && !jobs.some(({ id }) => id === job.id));
  const running = jobs.filter(isAtWork);
  const [first] = running;
  const title = shown
    ? `Step ${shown.step}`
    : first
      ? `${first.name} ${formatPercent(progress(first))}`
      : "Step by step";
  usePageTitle(first ? `● ${title}` : title);

  const problem = recent.error ?? chosen.error;
  const headline = (started.length > 1 && race.data?.headline) || waitingHeadline(jobs);
  const loading = recent.isPending || chosen.isPending;
  // Whoever has all that it takes to be drawn is not shown as waiting for it.
  const coming = started.length > 1 && race.isPending && !race.error;
  return (
    <Stack gap="md">
      <HowToReadThis />
      <Stack gap={4}>
        <Group justify="space-between" gap="xs" mih={30}>
          <Text size="xs" c="dimmed" fw={600}>
            {jobs[0] ? `Step by step · ${jobs[0].model} on ${jobs[0].dataset}` : "Step by step"}
          </Text>
          {choice.length > 1 && (
            <SegmentedControl
              size="xs"
              data-testid="race-choice"
              aria-label="Which jobs"
              value={keyOf(jobs)}
              onChange={(ids) => navigate({ search: { jobs: ids.split(",") } })}
              data={choice.map((group, place) => ({ value: keyOf(group.jobs), label: names[place] }))}
              maw="100%"
            />
          )}
        </Group>
        <Spoiler maxHeight={HEADLINE_PX} showLabel="All of it" hideLabel="Less">
          <Title order={1} fz={{ base: 22, sm: 28 }} lh={1.2} data-testid="headline" aria-live="polite">
            {loading ? <Skeleton height={30} width="60%" /> : headline}
          </Title>
        </Spoiler>
      </Stack>

      {problem && <Problem error={problem} onRetry={recent.refetch} />}

      <Paper p="sm" ref={frame}>
        {shown && figure ? (
          <>
            <Group justify="space-between" gap="xs" mb={4}>
              <StepControl
                step={race.isPlaceholderData ? (search.step ?? shown.step) : shown.step}
                {...neighbours}
                follow={search.step === undefined}
                onStep={goTo}
                live={running.length > 0}
              />
              {search.from_ns !== undefined && (
                <Button
                  size="compact-sm"
                  variant="default"
                  data-testid="race-whole-step"
                  onClick={() => look({ step: search.step })}
                >
                  Whole step
                </Button>
              )}
              <Text size="xs" c="dimmed" visibleFrom="sm">
                <Kbd size="xs">←</Kbd> <Kbd size="xs">→</Kbd> step by step, <Kbd size="xs">F</Kbd> follow
              </Text>
            </Group>
            <PlotlyChart
              figure={figure}
              label={[shown.headline, figure?.layout.meta?.alt].filter(Boolean).join(". ")}
              testId="figure-race"
              file={() => `${racers.map(nameOf).join(" ")} race`}
              pending={race.isPlaceholderData}
              onDrawn={(ms) => drawn(options.queryKey, ms)}
              onXRange={(range) => zoomed(range, meta)}
              onPoint={(point) => {
                const clicked = waitOfBar(point.customdata);
                if (clicked) explain(clicked.job, clicked.wait);
              }}
            />
            <Group justify="space-between" align="start" gap="xs">
              <LongestWaits
                waits={waits}
                label={(other) => `${nameOf(racers[other.job ?? 0])}, worker ${other.party}`}
                isChosen={(other) =>
                  formatWait(waitKey(other)) === search.why && racers[other.job ?? 0] === search.why_job
                }
                onChoose={(other) => explain(other.job, waitKey(other))}
              />
              <TimeKeys />
            </Group>
          </>
        ) : (
          <RaceWaiting jobs={jobs} ahead={ahead} loading={loading || coming} />
        )}
        {race.error && started.length > 1 && (
          <Problem error={race.error} onRetry={() => void race.refetch()} />
        )}
      </Paper>

      {wait && search.why_job && (
        <WhyPanel
          jobId={search.why_job}
          wait={wait}
          jobName={nameOf(search.why_job)}
          named
          onClose={() => explain(undefined, undefined)}
        />
      )}

      {jobs.length > 0 && <RaceTable jobs={jobs} />}
    </Stack>
  );
}

function useChosenJobs(ids: string[]) {
  return useQueries({
    queries: ids.map(jobQuery),
    combine: (results) => ({
      jobs: toldApart(results.flatMap((result) => (result.data ? [result.data as JobSummary] : []))),
      isPending: results.some((result) => result.isPending),
      error: results.find((result) => result.error)?.error ?? null,
    }),
  });
}

/** The steps that one can go to from here. */
function stepsAround(race: Race | undefined): StepNeighbours {
  if (race?.step == null || !race.steps) return { min: null, max: null, previous: null, next: null };
  return race.steps;
}

function waitingHeadline(jobs: JobSummary[]): string {
  const running = jobs.find(isAtWork);
  const next = jobs.find((job) => job.state === "queued");
  if (running && running.step !== null && next) return `${running.name} sets the pace, ${next.name} is next`;
  if (running) return `${running.name} is ${running.step === null ? "starting" : "running"}`;
  if (next) {
    return `${jobs.length} ${jobs.length === 1 ? "job is" : "jobs are"} on the way: drawn from the first step on`;
  }
  const ran = jobs.filter((job) => job.step !== null);
  if (ran.length > 0) return `Only ${ran[0]?.name} has run: it takes two to compare`;
  return jobs.length > 0
    ? "These jobs ended before their first step"
    : "None of these jobs is there any more";
}
