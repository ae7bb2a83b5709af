import { Badge, Box, Group, Paper, Table, Text, Title } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { summaryQuery } from "../../api/queries";
import type { JobSummary, Summary } from "../../api/types";
import { JobProgress } from "../../components/JobProgress";
import { LabelBadges } from "../../components/LabelBadges";
import { LinkAnchor } from "../../components/links";
import { NumberCell } from "../../components/NumberCell";
import { OrWhyNot } from "../../components/OrWhyNot";
import { RateBadge } from "../../components/RateBadge";
import { StateBadge } from "../../components/StateBadge";
import { TakeTable } from "../../components/TakeTable";
import { Term } from "../../components/Term";
import { Tip } from "../../components/Tip";
import { baselineName } from "../../lib/apart";
import { sideBySideCsv } from "../../lib/compareCsv";
import { COMING, formatPercent, formatSpeedUp, formatThroughput, NONE, wireText } from "../../lib/format";
import { SPEED_WORDS } from "../../lib/speedWords";
import { WHY_NONE } from "../../lib/whyNone";
import { IterationBar } from "./IterationBar";

/** The raced jobs side by side, live. */
export function RaceTable({ jobs }: { jobs: JobSummary[] }) {
  const summaries = useQueries({
    queries: jobs.map((job) => ({ ...summaryQuery(job.id), enabled: job.step !== null })),
    combine: (results) => results.map((result) => result.data),
  });
  const longest = Math.max(0, ...summaries.map((summary) => summary?.iteration_ms ?? 0));
  return (
    <Paper p="sm">
      <Group justify="space-between" mb={4}>
        <Title order={2} fz="md">
          Side by side
        </Title>
        <Text size="xs" c="dimmed">
          {SPEED_WORDS}
        </Text>
      </Group>
      <TakeTable
        file={`${jobs.map((job) => job.name).join(" ")} side by side`}
        rows={() => sideBySideCsv(jobs, summaries)}
      >
        <Table className="ty-table" data-testid="race-table">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Job</Table.Th>
              <Table.Th w={210}>Progress</Table.Th>
              <Table.Th w={190}>
                <Term name="iteration time">Iteration</Term>,{" "}
                <Term name="exposed communication">exposed</Term>
              </Table.Th>
              <Table.Th className="ty-right">
                <Term name="throughput">Samples/s</Term>
              </Table.Th>
              <Table.Th className="ty-right">
                <Term name="speed-up">Speed-up</Term>
              </Table.Th>
              <Table.Th className="ty-right">Wire/step</Table.Th>
              <Table.Th className="ty-right">Accuracy</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {jobs.map((job, index) => (
              <Row
                key={job.id}
                job={job}
                summary={summaries[index]}
                longest={longest}
                isBaseline={jobs.some((other) => other.baseline_id === job.id)}
              />
            ))}
          </Table.Tbody>
        </Table>
      </TakeTable>
    </Paper>
  );
}

interface RowProps {
  job: JobSummary;
  summary: Summary | undefined;
  longest: number;
  isBaseline: boolean;
}

function Row({ job, summary, longest, isBaseline }: RowProps) {
  // Until the figures come nobody knows that there is none, and a dash with its reason, which a keyboard can come to,
  // would go away under it.
  const coming = job.step !== null && summary === undefined;
  return (
    <Table.Tr data-testid={`race-row-${job.id}`}>
      <Table.Td>
        <Link to="/jobs/$jobId" params={{ jobId: job.id }} className="ty-link">
          {job.name}
        </Link>
        <Group gap={6} mt={2}>
          <Text size="xs" c="dimmed">
            {job.planned_by} · {job.workers} {job.workers === 1 ? "worker" : "workers"}
          </Text>
          <LabelBadges of={job} />
          <RateBadge job={job} />
        </Group>
      </Table.Td>
      <Table.Td>
        <Group gap={8} wrap="nowrap">
          <Tip label={job.message ?? ""} disabled={!job.message}>
            <Box>
              <StateBadge state={job.state} />
            </Box>
          </Tip>
          <JobProgress job={job} />
        </Group>
      </Table.Td>
      <Table.Td data-label="Iteration">
        <IterationBar
          iterationMs={summary?.iteration_ms}
          exposedMs={summary?.exposed_ms}
          longestMs={longest}
          coming={coming}
        />
      </Table.Td>
      <NumberCell label="Samples/s" none={WHY_NONE.steps}>
        {coming && job.samples_per_s === null
          ? COMING
          : formatThroughput(summary?.samples_per_s ?? job.samples_per_s)}
      </NumberCell>
      <NumberCell label="Speed-up">
        {coming && !isBaseline ? COMING : <SpeedUpCell job={job} summary={summary} isBaseline={isBaseline} />}
      </NumberCell>
      <NumberCell label="Wire/step" none={WHY_NONE.wire}>
        {coming ? COMING : summary ? wireText(summary) : NONE}
      </NumberCell>
      <NumberCell label="Accuracy" none={WHY_NONE.accuracy}>
        {formatPercent(job.test_accuracy)}
      </NumberCell>
    </Table.Tr>
  );
}

function SpeedUpCell({ job, summary, isBaseline }: Omit<RowProps, "longest">) {
  const speedUp = summary?.speed_up;
  if (!speedUp)
    return isBaseline ? (
      <Badge color="gray">baseline</Badge>
    ) : (
      <OrWhyNot why={WHY_NONE.speedUp}>{NONE}</OrWhyNot>
    );
  const against = `against ${baselineName(job, speedUp)}${speedUp.kind ? `, ${speedUp.kind} scaling` : ""}`;
  const faster = (speedUp.value ?? 0) > 1;
  const said = speedUp.comparable ? [against, speedUp.why_not] : [speedUp.why_not ?? against];
  const look = {
    fw: 700,
    c: speedUp.value === null ? "dimmed" : faster ? "teal" : "inherit",
    children: formatSpeedUp(speedUp.value, speedUp.why_not),
  } as const;
  return (
    <Tip label={said.filter(Boolean).join("; but ")}>
      {speedUp.baseline_id === null ? (
        <Text span inherit tabIndex={0} {...look} />
      ) : (
        <LinkAnchor to="/jobs/$jobId" params={{ jobId: speedUp.baseline_id }} underline="never" {...look} />
      )}
    </Tip>
  );
}
