import { Paper, SimpleGrid, Stack, Text, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { figuresQuery, summaryQuery } from "../../api/queries";
import type { Job, Summary } from "../../api/types";
import { BaselineChoice } from "../../components/BaselineChoice";
import { capital } from "../../components/Explained";
import { JobFigure } from "../../components/JobFigure";
import { Problem } from "../../components/Problem";
import { accuracyNote } from "../../lib/accuracy";
import { formatBytes, formatMs, formatNumber, formatPercent, formatSpeedUp } from "../../lib/format";

interface Props {
  job: Job;
  /** The one that is shown; undefined: the latest. */
  attempt: number | undefined;
  /** What it is compared with, where it is not its own baseline. */
  baseline: string | undefined;
  onBaseline: (id: string | undefined) => void;
}

/** The job's figures by definition, and how they came about. */
export function OverviewPanel({ job, attempt, baseline, onBaseline }: Props) {
  const query = useQuery(summaryQuery(job.id, baseline, attempt));
  const shown = { jobId: job.id, attempt };
  return (
    <Stack gap="md">
      {query.error && <Problem error={query.error} onRetry={() => void query.refetch()} />}
      <Tiles job={job} summary={query.data} />
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
        <JobFigure {...shown} name="loss" />
        <JobFigure {...shown} name="throughput" />
        <JobFigure {...shown} name="step-time" />
        <JobFigure
          {...shown}
          name="speed-up"
          baseline={baseline}
          actions={<BaselineChoice job={job} baseline={baseline} onBaseline={onBaseline} />}
        />
        <JobFigure {...shown} name="memory" />
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
    <SimpleGrid cols={{ base: 2, sm: 4, lg: 7 }} spacing="sm">
      <Tile
        name="iteration"
        label="Iteration"
        value={formatMs(summary?.iteration_ms)}
        note={summary?.window_steps ? `median of ${summary.window_steps} steps` : "median, warm-up left out"}
        hint={meaning["iteration time"]}
      />
      <Tile
        name="exposed"
        label="Exposed"
        value={formatMs(summary?.exposed_ms)}
        note={exposedShare === null ? "per iteration" : `${formatPercent(exposedShare)} of it`}
        hint={meaning["exposed communication"]}
        wait
      />
      <Tile
        name="throughput"
        label="Samples/s"
        value={formatNumber(summary?.samples_per_s)}
        note={`batch ${job.global_batch}`}
        hint={meaning.throughput}
      />
      <Tile
        name="speed-up"
        label="Speed-up"
        value={formatSpeedUp(speedUp?.value, speedUp?.why_not)}
        note={
          speedUp ? (speedUp.comparable ? `over ${speedUp.baseline_name}` : "not comparable") : "no baseline"
        }
        hint={speedUp ? sureness(speedUp) : undefined}
      />
      <Tile name="loss" label="Loss" value={formatNumber(summary?.loss)} note="last step" />
      <Tile
        name="accuracy"
        label="Test accuracy"
        value={formatPercent(summary?.test_accuracy)}
        note={accuracyNote(summary)}
        hint={summary?.convergence_speed_up ? meaning["convergence speed-up"] : undefined}
      />
      <Tile
        name="wire"
        label="On the wire"
        value={formatBytes(summary?.wire_bytes_per_step)}
        note="per step, all links"
        hint="Payload over all links, as the plan declares it"
      />
    </SimpleGrid>
  );
}

/** How sure a speed-up is, and what to know of it. */
function sureness({ low, high, kind, why_not }: NonNullable<Summary["speed_up"]>): string {
  const sure = typeof low === "number" && typeof high === "number";
  const words = [
    sure && `95 % confidence: ${low.toFixed(2)} to ${high.toFixed(2)}`,
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
  value: ReactNode;
  note: string;
  hint?: string;
  /** The reserved red. */
  wait?: boolean;
}

function Tile({ name, label, value, note, hint, wait }: TileProps) {
  return (
    <Tooltip label={hint ?? ""} disabled={!hint}>
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
          {value}
        </Text>
        <Text size="xs" c="dimmed" lineClamp={2}>
          {note}
        </Text>
      </Paper>
    </Tooltip>
  );
}
