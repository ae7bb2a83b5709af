import { Alert, Paper, SimpleGrid, Stack, Text } from "@mantine/core";
import { IconHourglass } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { figuresQuery, summaryQuery } from "../../api/queries";
import type { Job, Summary } from "../../api/types";
import { BaselineChoice } from "../../components/BaselineChoice";
import { capital } from "../../components/Explained";
import { JobFigure } from "../../components/JobFigure";
import { OrWhyNot } from "../../components/OrWhyNot";
import type { XRange } from "../../components/PlotlyChart";
import { Problem } from "../../components/Problem";
import { Tip } from "../../components/Tip";
import { accuracyNote, accuracyOf } from "../../lib/accuracy";
import { baselineName } from "../../lib/apart";
import {
  counted,
  formatBytes,
  formatFixed,
  formatNumber,
  formatPercent,
  formatSpeedUp,
  formatStepTime,
  formatThroughput,
  ofWorker,
} from "../../lib/format";
import { inputNote, inputShares } from "../../lib/inputWait";
import { WHY_NONE } from "../../lib/whyNone";
import { withZoom, zoomsOf } from "../../lib/zoom";
import { MemoryPanel } from "./MemoryPanel";

interface Props {
  job: Job;
  /** The one that is shown; undefined: the latest. */
  attempt: number | undefined;
  /** What it is compared with, where it is not its own baseline. */
  baseline: string | undefined;
  onBaseline: (id: string | undefined) => void;
  /** Which parts of their x axes figures show. */
  zoom: string[] | undefined;
  onZoom: (zoom: string[] | undefined) => void;
}

/** The job's figures by definition, and how they came about. */
export function OverviewPanel({ job, attempt, baseline, onBaseline, zoom, onZoom }: Props) {
  const query = useQuery(summaryQuery(job.id, baseline, attempt));
  const shown = { jobId: job.id, attempt };
  const zooms = zoomsOf(zoom);
  const overSteps = (name: string) => ({
    name,
    zoom: zooms[name],
    onXRange: (range: XRange) => onZoom(withZoom(zoom, name, range)),
  });
  return (
    <Stack gap="md">
      {query.error && <Problem error={query.error} onRetry={() => void query.refetch()} />}
      <Tiles job={job} summary={query.data} />
      {query.data?.input_hint && (
        <Alert color="yellow" icon={<IconHourglass />} p="xs" data-testid="input-hint">
          {query.data.input_hint}
        </Alert>
      )}
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
        <JobFigure {...shown} {...overSteps("loss")} />
        <JobFigure {...shown} {...overSteps("throughput")} />
        <JobFigure {...shown} name="step-time" />
        <JobFigure
          {...shown}
          name="speed-up"
          baseline={baseline}
          actions={<BaselineChoice job={job} baseline={baseline} onBaseline={onBaseline} />}
        />
        <MemoryPanel job={job} attempt={attempt} {...overSteps("memory")} />
      </SimpleGrid>
    </Stack>
  );
}

function Tiles({ job, summary }: { job: Job; summary: Summary | undefined }) {
  const speedUp = summary?.speed_up;
  const meaning = useDefinitions();
  const exposedShare =
    summary?.iteration_ms && summary.exposed_ms !== null ? summary.exposed_ms / summary.iteration_ms : null;
  return (
    <SimpleGrid cols={{ base: 2, sm: 4, lg: 8 }} spacing="sm">
      <Tile
        name="iteration"
        none={WHY_NONE.steps}
        label="Iteration"
        value={formatStepTime(summary?.iteration_ms)}
        note={
          summary?.window_steps
            ? `median of ${counted(summary.window_steps, "step")}, slowest worker`
            : "median of the slowest worker"
        }
        hint={meaning["iteration time"]}
      />
      <Tile
        name="exposed"
        none={WHY_NONE.steps}
        label="Exposed"
        value={formatStepTime(summary?.exposed_ms)}
        note={ofWorker(
          exposedShare === null ? "per iteration" : `${formatPercent(exposedShare)} of it`,
          summary?.exposed_worker ?? null,
        )}
        hint={meaning["exposed communication"]}
        wait
      />
      <Tile
        name="input"
        none={WHY_NONE.steps}
        label="Waiting for input"
        value={formatStepTime(summary?.input_ms)}
        note={inputNote(summary)}
        hint={[meaning["waiting for input"], inputShares(summary)].filter(Boolean).join(". ") || undefined}
      />
      <Tile
        name="throughput"
        none={WHY_NONE.steps}
        label="Samples/s"
        value={formatThroughput(summary?.samples_per_s)}
        note={`${job.workers > 1 ? "sum over the workers, " : ""}batch ${job.global_batch}`}
        hint={meaning.throughput}
      />
      <Tile
        name="speed-up"
        none={speedUp?.why_not ?? WHY_NONE.speedUp}
        label="Speed-up"
        value={formatSpeedUp(speedUp?.value, speedUp?.why_not)}
        note={
          speedUp
            ? speedUp.comparable
              ? `over ${baselineName(job, speedUp)}${speedUp.certainty === "chance" ? ", may be chance" : ""}`
              : "not comparable"
            : "no baseline"
        }
        hint={speedUp ? sureness(speedUp) : undefined}
      />
      <Tile
        name="loss"
        none={WHY_NONE.loss}
        label="Loss"
        value={formatNumber(summary?.loss)}
        note="last step"
      />
      <Tile
        name="accuracy"
        none={WHY_NONE.accuracy}
        label="Test accuracy"
        value={formatPercent(summary?.test_accuracy)}
        note={accuracyNote(summary, job)}
        hint={
          [accuracyOf(summary), summary?.convergence_speed_up && meaning["convergence speed-up"]]
            .filter(Boolean)
            .join(". ") || undefined
        }
      />
      <Tile
        name="wire"
        none={WHY_NONE.wire}
        label="On the wire"
        value={summary ? formatBytes(summary.wire_bytes_per_step ?? summary.counted_bytes_per_step) : "…"}
        note={isCounted(summary) ? "per step, all links, counted" : "per step, all links"}
        hint={
          isCounted(summary)
            ? `What the kernel counted as sent ${job.hosts === null ? "over the job's connections, without headers of packets" : "on the lab's hosts, headers of packets included"}: the plan declares no bytes`
            : "Payload over all links, as the plan declares it"
        }
      />
    </SimpleGrid>
  );
}

function isCounted(summary: Summary | undefined): boolean {
  return typeof summary?.counted_bytes_per_step === "number";
}

/** How sure a speed-up is, and what to know of it. */
function sureness({ low, high, kind, why_not }: NonNullable<Summary["speed_up"]>): string {
  const sure = typeof low === "number" && typeof high === "number";
  const words = [
    sure && `95 % confidence: ${formatFixed(low, 2)} to ${formatFixed(high, 2)}`,
    why_not ?? (kind && `${kind} scaling`),
  ];
  return words.filter(Boolean).join("; ");
}

/** What each metric means, by its name. */
function useDefinitions(): Record<string, string> {
  const figures = useQuery(figuresQuery).data ?? [];
  const found = figures.flatMap((figure) => Object.entries(figure.definitions));
  return Object.fromEntries(found.map(([term, text]) => [term, capital(text)]));
}

interface TileProps {
  name: string;
  label: string;
  /** Why the value may be a dash. */
  none: string;
  value: string;
  note: string;
  hint?: string;
  /** The reserved red. */
  wait?: boolean;
}

function Tile({ name, label, none, value, note, hint, wait }: TileProps) {
  return (
    <Tip label={hint ?? ""} disabled={!hint}>
      <Paper px="sm" py={10} tabIndex={hint ? 0 : undefined} data-testid={`tile-${name}`}>
        <Text size="xs" c="dimmed" fw={600}>
          {label}
        </Text>
        <Text
          fz={22}
          fw={700}
          lh={1.25}
          className="ty-number"
          c={wait ? "var(--ty-wait)" : undefined}
          data-testid={`value-${name}`}
        >
          <OrWhyNot why={none}>{value}</OrWhyNot>
        </Text>
        <Text size="xs" c="dimmed" lineClamp={2}>
          {note}
        </Text>
      </Paper>
    </Tip>
  );
}
