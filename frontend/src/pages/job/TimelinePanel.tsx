import { Button, Group, Kbd, Stack, Text } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconDownload, IconRuler } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useCallback, useRef, useState } from "react";
import type { Job } from "../../api/types";
import { JobFigure } from "../../components/JobFigure";
import { LongestWaits } from "../../components/LongestWaits";
import { Measure, type PlotArea } from "../../components/Measure";
import type { XRange } from "../../components/PlotlyChart";
import { StepField } from "../../components/StepField";
import { TimeKeys } from "../../components/TimeKeys";
import { Tip } from "../../components/Tip";
import { useKeys } from "../../components/useKeys";
import { useTimeKeys } from "../../components/useTimeKeys";
import { WhyPanel } from "../../components/WhyPanel";
import { type Measured, middleOf } from "../../lib/measure";
import { formatQuery, type JobSearch } from "../../lib/search";
import { type TimelineMeta, windowAfter } from "../../lib/timeline";
import { formatWait, keyOf, parseWait, type WaitKey, waitOfBar } from "../../lib/why";
import { LayerSearch } from "./LayerSearch";
import { useLayers } from "./useLayers";

/** Who did what when. Zooming and panning asks again, with the detail that fits; the address keeps the view. */
export function TimelinePanel({ job, search }: { job: Job; search: JobSearch }) {
  const jobId = job.id;
  const navigate = useNavigate({ from: "/jobs/$jobId" });
  const [meta, setMeta] = useState<TimelineMeta>({});
  const wait = parseWait(search.why);
  const change = useCallback(
    (changed: (previous: JobSearch) => JobSearch) =>
      void navigate({ search: changed, replace: true, resetScroll: false }),
    [navigate],
  );
  // What is explained and what is measured stay while one looks closer, not in another step.
  const show = (view: Pick<JobSearch, "step" | "to_step" | "from_ns" | "to_ns">) => {
    const stays = (of: number | undefined) =>
      view.from_ns !== undefined || (of !== undefined && of === view.step);
    change((previous) => ({
      ...previous,
      step: undefined,
      to_step: undefined,
      from_ns: undefined,
      to_ns: undefined,
      why: stays(wait?.step) ? previous.why : undefined,
      measure: stays(step) ? previous.measure : undefined,
      ...view,
    }));
  };
  // The step that these are of, also when newer ones come.
  const its = ({ step: own, from_ns }: JobSearch) =>
    own ?? (from_ns === undefined ? (meta.step ?? undefined) : undefined);
  const explain = (chosen: WaitKey | undefined) =>
    change((previous) => ({
      ...previous,
      step: chosen ? its(previous) : previous.step,
      why: chosen && formatWait(chosen),
    }));
  const measure = (measured: Measured | undefined) =>
    change((previous) => ({
      ...previous,
      step: measured ? its(previous) : previous.step,
      measure: measured,
    }));
  const light = useCallback(
    (layer: number | undefined) => change((previous) => ({ ...previous, layer })),
    [change],
  );
  const takesFocus = useRef(false);
  const layers = useLayers(job, meta.layers);
  // A drag or a wheel fires many events; the service is asked once it rests.
  const zoomed = useDebouncedCallback((range: XRange, drawn: TimelineMeta) => {
    const view = windowAfter(range, drawn);
    if (view) show({ ...view, to_step: search.to_step });
  }, 200);
  const shown = search.from_ns === undefined ? meta : search;
  const { previous, next } = meta.steps ?? {};
  // The step that is asked for is shown at once, its drawing when it comes.
  const step = meta.step == null ? undefined : (search.step ?? meta.step);
  const last = meta.steps?.last ?? step ?? 0;
  useKeys({
    // While something is measured, they are its lines': another step would throw it away.
    ...(search.measure === undefined && {
      ArrowLeft: () => previous != null && show({ step: previous }),
      ArrowRight: () => next != null && show({ step: next }),
    }),
    m: () => {
      // Who measures by keyboard moves the line next: it gets the focus as soon as it is drawn.
      takesFocus.current = search.measure === undefined;
      measure(search.measure ? undefined : middleOf(shown));
    },
    Escape: () =>
      wait
        ? explain(undefined)
        : change((previous) => ({ ...previous, measure: undefined, layer: undefined })),
  });
  const look = (window: { from_ns: number; to_ns: number }) =>
    show({ step, to_step: search.to_step, ...window });
  useTimeKeys(shown, look);
  return (
    <Stack gap={0}>
      <JobFigure
        jobId={jobId}
        name="timeline"
        attempt={search.attempt}
        step={search.step}
        to_step={search.to_step}
        from_ns={search.from_ns}
        to_ns={search.to_ns}
        why={search.why}
        layer={search.layer}
        onPoint={(point) => {
          if (search.measure) return; // the click placed an end of what is measured
          const clicked = waitOfBar(point.customdata);
          if (clicked) explain(clicked.wait);
        }}
        footer={
          <Group justify="space-between" align="start" gap="xs">
            {search.measure && (
              <Text size="xs" fw={600} w="100%" data-testid="measure-hint">
                Measuring: click two points of the drawing, or drag the lines; the arrow keys move the line
                that has the focus, with Shift finer, and Tab goes to the other. M or Escape ends it.
              </Text>
            )}
            <LongestWaits
              waits={meta.waits ?? []}
              label={(other) => `worker ${other.party}`}
              isChosen={(other) => formatWait(keyOf(other)) === search.why}
              onChoose={(other) => explain(keyOf(other))}
            />
            <TimeKeys>
              , the wheel zooms; <Kbd size="xs">←</Kbd> <Kbd size="xs">→</Kbd> go to another recorded step;{" "}
              <Kbd size="xs">/</Kbd> finds a layer, <Kbd size="xs">N</Kbd> <Kbd size="xs">P</Kbd> its events;{" "}
              <Kbd size="xs">M</Kbd> measures between two clicks
            </TimeKeys>
          </Group>
        }
        onMeta={setMeta}
        onXRange={zoomed}
        wheel
        measuring={search.measure !== undefined}
        overlay={(area: PlotArea) =>
          search.measure &&
          meta.origin_ns !== undefined && (
            <Measure
              area={area}
              origin_ns={meta.origin_ns}
              measured={search.measure}
              onMeasured={measure}
              takesFocus={takesFocus}
            />
          )
        }
        actions={
          <Group gap={6}>
            {layers.length > 0 && (
              <LayerSearch
                jobId={jobId}
                attempt={search.attempt}
                layers={layers}
                layer={search.layer}
                step={step}
                shown={shown}
                onLayer={light}
                onWindow={look}
              />
            )}
            <Tip label="How much time lies between two points: click both, or drag the lines (M)">
              <Button
                size="compact-sm"
                variant={search.measure ? "filled" : "default"}
                aria-pressed={search.measure !== undefined}
                leftSection={<IconRuler size={14} />}
                data-testid="measure-button"
                onClick={() => measure(search.measure ? undefined : middleOf(shown))}
              >
                Measure
              </Button>
            </Tip>
            {step !== undefined && (
              <>
                <StepField step={step} min={0} max={last} onStep={(chosen) => show({ step: chosen })} />
                <StepField
                  label="to"
                  testId="to-step"
                  step={search.to_step ?? step}
                  min={step}
                  max={last}
                  onStep={(to) => show({ step, to_step: to })}
                />
              </>
            )}
            <Button.Group>
              <Button
                size="compact-sm"
                variant="default"
                disabled={previous == null}
                data-testid="step-previous"
                aria-label="Previous detailed step"
                onClick={() => previous != null && show({ step: previous })}
              >
                ←
              </Button>
              <Button
                size="compact-sm"
                variant="default"
                disabled={next == null}
                data-testid="step-next"
                aria-label="Next detailed step"
                onClick={() => next != null && show({ step: next })}
              >
                →
              </Button>
            </Button.Group>
            {search.from_ns !== undefined && (
              <Button
                size="compact-sm"
                variant="default"
                data-testid="timeline-whole-step"
                onClick={() => show({ step: search.step, to_step: search.to_step })}
              >
                {search.to_step === undefined ? "Whole step" : "Whole steps"}
              </Button>
            )}
            <Tip label="For ui.perfetto.dev and chrome://tracing">
              <Button
                component="a"
                href={traceAddress(jobId, search, meta.step ?? undefined)}
                download
                size="compact-sm"
                variant="default"
                leftSection={<IconDownload size={14} />}
                data-testid="trace"
              >
                Trace
              </Button>
            </Tip>
            <Tip label="All that was recorded, as Parquet files for pandas, DuckDB and others">
              <Button
                component="a"
                href={`/api/v1/jobs/${jobId}/tables${formatQuery({ attempt: search.attempt })}`}
                download
                size="compact-sm"
                variant="default"
                leftSection={<IconDownload size={14} />}
                data-testid="tables"
              >
                Tables
              </Button>
            </Tip>
            <Button
              size="compact-sm"
              variant="default"
              data-testid="timeline-latest"
              disabled={search.step === undefined && search.from_ns === undefined}
              onClick={() => show({})}
            >
              Latest
            </Button>
          </Group>
        }
      />
      {wait && (
        <WhyPanel
          jobId={jobId}
          jobName={job.name}
          wait={wait}
          attempt={search.attempt}
          onClose={() => explain(undefined)}
        />
      )}
    </Stack>
  );
}

/** Where the steps in view are exported as a trace; where nothing says which, the newest ones. */
function traceAddress(jobId: string, view: JobSearch, step?: number): string {
  const { attempt, to_step, from_ns, to_ns } = view;
  const steps = { step_from: step, step_to: to_step ?? step };
  const query = { attempt, ...(from_ns === undefined ? steps : { from_ns, to_ns }) };
  return `/api/v1/jobs/${jobId}/trace${formatQuery(query)}`;
}
