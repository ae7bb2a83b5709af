import { Button, Group, Paper, Stack, Text } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconArrowsShuffle } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useCallback, useState } from "react";
import { ForMembers } from "../../access/ForMembers";
import type { Job } from "../../api/types";
import { JobFigure } from "../../components/JobFigure";
import { LinkButton } from "../../components/links";
import { PlanTable } from "../../components/PlanTable";
import type { XRange } from "../../components/PlotlyChart";
import { TakeTable } from "../../components/TakeTable";
import { TimeKeys } from "../../components/TimeKeys";
import { useKeys } from "../../components/useKeys";
import { useTimeKeys } from "../../components/useTimeKeys";
import { formatMs } from "../../lib/format";
import { layerOfPoint, type Point } from "../../lib/lit";
import { planRows } from "../../lib/planRow";
import type { JobSearch } from "../../lib/search";
import { type TimelineMeta, windowOf } from "../../lib/timeline";
import { LayerSelect } from "./LayerSelect";
import { LinkSelect, type LinksMeta } from "./LinkSelect";
import { StretchPanel } from "./StretchPanel";
import { useLayers } from "./useLayers";

// Pointing crosses many layers on its way: what it rests on is lit up.
const REST_MS = 50;
const HEIGHT = 780; // of two workers' links

/** Each link's bytes by layer, and the same layer and the same time in timeline, heat map and plan. */
export function LinksPanel({ job, search }: { job: Job; search: JobSearch }) {
  const navigate = useNavigate({ from: "/jobs/$jobId" });
  const [resting, setResting] = useState<number>();
  const point = useDebouncedCallback((pointed: number | undefined) => setResting(pointed), REST_MS);
  const layer = resting ?? search.layer;
  const select = useCallback(
    (change: JobSearch | ((previous: JobSearch) => JobSearch)) =>
      void navigate({
        search: (previous) => ({
          ...previous,
          ...(typeof change === "function" ? change(previous) : change),
        }),
        replace: true,
        resetScroll: false,
      }),
    [navigate],
  );
  const keep = useCallback((layer: number | undefined) => select({ layer }), [select]);
  const choose = useCallback(
    (chosen: number | undefined) =>
      chosen !== undefined && select(({ layer }) => ({ layer: chosen === layer ? undefined : chosen })),
    [select],
  );
  // A drag fires many events; time is selected once it rests.
  const brush = useDebouncedCallback((range: XRange, drawn: Record<string, unknown>) => {
    const window = range && windowOf(range, drawn);
    if (window !== undefined) select(window ?? { step: undefined, from_ns: undefined, to_ns: undefined });
  }, 200);
  // Where nothing is selected, the timeline shows the time that the links show.
  const [shown, setShown] = useState<TimelineMeta & LinksMeta>({});
  const follow = { from_ns: shown.from_ns, to_ns: shown.to_ns };
  useKeys({ Escape: () => select({ layer: undefined }) });
  useTimeKeys(search.from_ns === undefined ? shown : search, select);

  const layers = useLayers(job, shown.layers);
  const chosen = { step: search.step, from_ns: search.from_ns, to_ns: search.to_ns };
  const selected = nameOf(search);
  const shared = {
    jobId: job.id,
    attempt: search.attempt,
    layer,
    onXRange: brush,
    onPoint: (one: Point) => choose(layerOfPoint(one)),
    onPointed: (one: Point | undefined) => point(layerOfPoint(one)),
  };
  return (
    <Stack gap="md">
      <Paper p="sm">
        <Group gap="xs" justify="space-between">
          <Group gap="xs">
            {layers.length > 0 && <LayerSelect layers={layers} layer={search.layer} onLayer={keep} />}
            {selected && (
              <Button
                size="compact-sm"
                variant="default"
                data-testid="all-time"
                onClick={() => select({ step: undefined, from_ns: undefined, to_ns: undefined })}
              >
                {selected} · show all
              </Button>
            )}
            <Stack gap={2}>
              <Text size="xs" c="dimmed">
                Point at a layer, or go there with the arrow keys, to light it up everywhere; click, or press
                Enter, to keep it; drag across a figure to select time.
              </Text>
              <TimeKeys />
            </Stack>
          </Group>
          <ForMembers>
            <LinkButton
              to="/launch"
              search={{ from: job.id }}
              size="compact-sm"
              variant="light"
              leftSection={<IconArrowsShuffle size={15} />}
              data-testid="another-strategy"
            >
              Try another strategy
            </LinkButton>
          </ForMembers>
        </Group>
      </Paper>
      <JobFigure
        name="utilization"
        {...chosen}
        {...shared}
        links={search.interfaces?.join(",")}
        height={HEIGHT}
        actions={
          <LinkSelect
            drawn={shown}
            chosen={search.interfaces}
            onLinks={(interfaces) => select({ interfaces })}
          />
        }
        onMeta={setShown}
      />
      {search.from_ns !== undefined && search.to_ns !== undefined && (
        <StretchPanel
          jobId={job.id}
          jobName={job.name}
          attempt={search.attempt}
          from_ns={search.from_ns}
          to_ns={search.to_ns}
          origin_ns={shown.origin_ns ?? 0}
          link={shown.shown?.join(",")}
          layer={layer}
          onLayer={choose}
          onPointed={point}
        />
      )}
      <JobFigure name="timeline" {...(selected ? chosen : follow)} {...shared} />
      <JobFigure name="heatmap" {...chosen} {...shared} />
      {job.plan.layers.length > 0 && (
        <Paper p="sm">
          <TakeTable file={`${job.name} plan`} rows={() => planRows(job.plan)}>
            <PlanTable plan={job.plan} brief layer={layer} onLayer={choose} onPointed={point} />
          </TakeTable>
        </Paper>
      )}
    </Stack>
  );
}

/** What is selected, in words; undefined where nothing is. */
function nameOf({ step, from_ns, to_ns }: JobSearch): string | undefined {
  if (from_ns !== undefined && to_ns !== undefined) return `${formatMs((to_ns - from_ns) / 1e6)} selected`;
  return step === undefined ? undefined : `Step ${step}`;
}
