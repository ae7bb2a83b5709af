import { Box, Checkbox, Group, Table, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { Ref } from "react";
import type { JobSummary } from "../../api/types";
import { JobProgress } from "../../components/JobProgress";
import { JobTags } from "../../components/JobTags";
import { LabelBadges } from "../../components/LabelBadges";
import { LongName } from "../../components/LongName";
import { NumberCell } from "../../components/NumberCell";
import { OrWhyNot } from "../../components/OrWhyNot";
import { Owner } from "../../components/Owner";
import { RateBadge } from "../../components/RateBadge";
import { SpeedUp } from "../../components/SpeedUp";
import { StateBadge } from "../../components/StateBadge";
import { Tip } from "../../components/Tip";
import { accuracyOf } from "../../lib/accuracy";
import {
  formatDuration,
  formatNumber,
  formatPercent,
  formatSpan,
  formatThroughput,
  NONE,
} from "../../lib/format";
import { secondsRun } from "../../lib/jobState";
import { WHY_NONE } from "../../lib/whyNone";

interface Props {
  job: JobSummary;
  /** Its place in the list. */
  index: number;
  selected: boolean;
  onToggle: () => void;
  ref: Ref<HTMLTableRowElement>;
}

/** One job of the list. */
export function JobRow({ job, index, selected, onToggle, ref }: Props) {
  const now = Date.now();
  const ran = secondsRun(job, now);
  return (
    <Table.Tr
      ref={ref}
      data-index={index}
      aria-rowindex={index + 2}
      data-testid={`job-row-${job.id}`}
      bg={selected ? "var(--mantine-primary-color-light)" : undefined}
    >
      <Table.Td className="ty-corner">
        <Checkbox
          size="xs"
          aria-label={`Select ${job.name}`}
          data-testid={`select-${job.id}`}
          checked={selected}
          onChange={onToggle}
        />
      </Table.Td>
      <Table.Td>
        <Link to="/jobs/$jobId" params={{ jobId: job.id }} className="ty-link">
          <LongName name={job.name} />
        </Link>
        <Group gap={4} mt={2}>
          <LabelBadges of={job} />
          <RateBadge job={job} />
          <JobTags job={job} />
          <Owner of={job} />
        </Group>
      </Table.Td>
      <Table.Td>
        <Tip label={job.message ?? job.reason ?? ""} disabled={!job.message && !job.reason}>
          <Box w="fit-content">
            <StateBadge state={job.state} />
          </Box>
        </Tip>
      </Table.Td>
      <Table.Td data-label="Strategy">{job.planned_by}</Table.Td>
      <Table.Td data-label="Model">
        <LongName name={job.model} />
        <Text c="dimmed" size="xs">
          on {job.dataset}
        </Text>
      </Table.Td>
      <NumberCell label="Workers">{job.workers}</NumberCell>
      <Table.Td>
        <JobProgress job={job} />
      </Table.Td>
      <NumberCell label="Loss" none={WHY_NONE.loss}>
        {formatNumber(job.loss)}
      </NumberCell>
      <NumberCell label="Accuracy" none={WHY_NONE.accuracy}>
        {job.accuracy_of ? (
          <span title={accuracyOf(job)}>{formatPercent(job.test_accuracy)}</span>
        ) : (
          formatPercent(job.test_accuracy)
        )}
      </NumberCell>
      <NumberCell label="Samples/s" none={WHY_NONE.steps}>
        {formatThroughput(job.samples_per_s)}
      </NumberCell>
      <NumberCell label="Speed-up">
        <SpeedUp value={job.speed_up} caveat={job.speed_up_caveat} />
      </NumberCell>
      <NumberCell label="Age">
        <span title={new Date(job.created_at).toLocaleString()}>
          {formatSpan((now - Date.parse(job.created_at)) / 1000)}
        </span>
      </NumberCell>
      <NumberCell label="Took">
        {ran === null ? (
          <OrWhyNot why={WHY_NONE.start}>{NONE}</OrWhyNot>
        ) : (
          <span title={`${formatDuration(ran)} from its first start on, with waits between attempts`}>
            {formatSpan(ran)}
          </span>
        )}
      </NumberCell>
    </Table.Tr>
  );
}
