import { Button, Group } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { JobFigure } from "../../components/JobFigure";
import type { XRange } from "../../components/PlotlyChart";
import { StepField } from "../../components/StepField";
import { useKeys } from "../../components/useKeys";
import type { JobSearch } from "../../lib/search";
import { type TimelineMeta, windowAfter } from "../../lib/timeline";

/** Who did what when. Zooming and panning asks again, with the detail that fits; the address keeps the view. */
export function TimelinePanel({ jobId, search }: { jobId: string; search: JobSearch }) {
  const navigate = useNavigate({ from: "/jobs/$jobId" });
  const [meta, setMeta] = useState<TimelineMeta>({});
  const show = (view: Pick<JobSearch, "step" | "from_ns" | "to_ns">) =>
    void navigate({
      search: (previous) => ({ ...previous, step: undefined, from_ns: undefined, to_ns: undefined, ...view }),
      replace: true,
      resetScroll: false,
    });
  // A drag or a wheel fires many events; the service is asked once it rests.
  const zoomed = useDebouncedCallback((range: XRange, drawn: TimelineMeta) => {
    const view = windowAfter(range, drawn);
    if (view) show(view);
  }, 200);
  const { previous, next } = meta.steps ?? {};
  useKeys({
    ArrowLeft: () => previous != null && show({ step: previous }),
    ArrowRight: () => next != null && show({ step: next }),
  });
  return (
    <JobFigure
      jobId={jobId}
      name="timeline"
      step={search.step}
      from_ns={search.from_ns}
      to_ns={search.to_ns}
      onMeta={setMeta}
      onXRange={zoomed}
      actions={
        <Group gap={6}>
          {meta.step != null && (
            <StepField
              step={meta.step}
              min={0}
              max={meta.steps?.last ?? meta.step}
              onStep={(step) => show({ step })}
            />
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
              onClick={() => show({ step: search.step })}
            >
              Whole step
            </Button>
          )}
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
  );
}
