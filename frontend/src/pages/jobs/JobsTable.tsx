import { Box, Checkbox, Group, Table, Text, Tooltip } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { JobSummary } from "../../api/types";
import { JobProgress } from "../../components/JobProgress";
import { RateBadge } from "../../components/RateBadge";
import { RehearsedBadge } from "../../components/RehearsedBadge";
import { StateBadge } from "../../components/StateBadge";
import { formatNumber, formatPercent, formatSpeedUp } from "../../lib/format";

interface Props {
  jobs: JobSummary[];
  selected: string[];
  onSelect: (ids: string[]) => void;
}

export function JobsTable({ jobs, selected, onSelect }: Props) {
  const toggle = (id: string) =>
    onSelect(selected.includes(id) ? selected.filter((other) => other !== id) : [...selected, id]);
  return (
    <Table className="ty-table" data-testid="jobs-table" highlightOnHover horizontalSpacing="xs">
      <Table.Thead>
        <Table.Tr>
          <Table.Th w={36} aria-label="Selected for a race" />
          <Table.Th>Name</Table.Th>
          <Table.Th w={110}>State</Table.Th>
          <Table.Th>Strategy</Table.Th>
          <Table.Th>Model</Table.Th>
          <Table.Th className="ty-right">Workers</Table.Th>
          <Table.Th w={150}>Progress</Table.Th>
          <Table.Th className="ty-right">Loss</Table.Th>
          <Table.Th className="ty-right">Accuracy</Table.Th>
          <Table.Th className="ty-right">Samples/s</Table.Th>
          <Table.Th className="ty-right">Speed-up</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {jobs.map((job) => (
          <Table.Tr
            key={job.id}
            data-testid={`job-row-${job.id}`}
            bg={selected.includes(job.id) ? "var(--mantine-primary-color-light)" : undefined}
          >
            <Table.Td className="ty-corner">
              <Checkbox
                size="xs"
                aria-label={`Select ${job.name}`}
                data-testid={`select-${job.id}`}
                checked={selected.includes(job.id)}
                onChange={() => toggle(job.id)}
              />
            </Table.Td>
            <Table.Td>
              <Link to="/jobs/$jobId" params={{ jobId: job.id }} className="ty-link">
                {job.name}
              </Link>
              <Group gap={4} mt={2}>
                <RehearsedBadge text={job.rehearsed} />
                <RateBadge bps={job.rate_bps} hosts={job.hosts} />
              </Group>
            </Table.Td>
            <Table.Td>
              <Tooltip label={job.message ?? job.reason ?? ""} disabled={!job.message && !job.reason}>
                <Box w="fit-content">
                  <StateBadge state={job.state} />
                </Box>
              </Tooltip>
            </Table.Td>
            <Table.Td data-label="Strategy" className="ty-number">
              {job.strategy}
            </Table.Td>
            <Table.Td data-label="Model">
              {job.model}
              <Text c="dimmed" size="xs">
                on {job.dataset}
              </Text>
            </Table.Td>
            <Table.Td data-label="Workers" className="ty-number ty-right">
              {job.workers}
            </Table.Td>
            <Table.Td>
              <JobProgress job={job} />
            </Table.Td>
            <Table.Td data-label="Loss" className="ty-number ty-right">
              {formatNumber(job.loss)}
            </Table.Td>
            <Table.Td data-label="Accuracy" className="ty-number ty-right">
              {formatPercent(job.test_accuracy)}
            </Table.Td>
            <Table.Td data-label="Samples/s" className="ty-number ty-right">
              {formatNumber(job.samples_per_s)}
            </Table.Td>
            <Table.Td data-label="Speed-up" className="ty-number ty-right">
              {formatSpeedUp(job.speed_up)}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
