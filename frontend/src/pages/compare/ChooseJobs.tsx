import { Button, Checkbox, Group, Paper, Skeleton, Table, Text, TextInput, Title } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconChartLine, IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { namedJobsQuery } from "../../api/queries";
import type { JobSummary } from "../../api/types";
import { OrWhyNot } from "../../components/OrWhyNot";
import { Problem } from "../../components/Problem";
import { StateBadge } from "../../components/StateBadge";
import { formatAge, formatThroughput, NONE } from "../../lib/format";
import { MOST_COMPARED } from "../../lib/races";
import { WHY_NONE } from "../../lib/whyNone";

const TYPED_MS = 200;

/** The newest jobs, or those with a name, to be ticked; the first one that is ticked is what the others are compared
 * with. */
export function ChooseJobs({ onJobs }: { onJobs: (ids: string[]) => void }) {
  const [typed, setTyped] = useState("");
  const [text] = useDebouncedValue(typed, TYPED_MS);
  const [ticked, setTicked] = useState<string[]>([]);
  const query = useQuery(namedJobsQuery(text));
  const jobs = query.data?.items ?? [];
  const toggle = (id: string) =>
    setTicked((ids) => (ids.includes(id) ? ids.filter((other) => other !== id) : [...ids, id]));
  return (
    <Paper p="sm" data-testid="choose-jobs">
      <Group justify="space-between" mb="xs" gap="xs">
        <Title order={2} fz="md">
          Which jobs?
        </Title>
        <Group gap="xs">
          <TextInput
            size="xs"
            aria-label="Search by name"
            placeholder="Search by name"
            leftSection={<IconSearch size={14} />}
            value={typed}
            onChange={(event) => setTyped(event.currentTarget.value)}
            data-testid="choose-text"
          />
          <Button
            size="xs"
            leftSection={<IconChartLine size={14} />}
            disabled={ticked.length === 0 || ticked.length > MOST_COMPARED}
            onClick={() => onJobs(ticked)}
            data-testid="compare-ticked"
          >
            {ticked.length > MOST_COMPARED
              ? `At most ${MOST_COMPARED}`
              : ticked.length > 1
                ? `Compare ${ticked.length} jobs`
                : "Compare"}
          </Button>
        </Group>
      </Group>
      <Text size="sm" c="dimmed" mb="xs">
        Tick two or more. The first one is the baseline of the others' speed-up.
      </Text>
      {query.error && <Problem error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton height={200} />}
      {query.data && jobs.length === 0 && (
        <Text c="dimmed" py="lg" ta="center" data-testid="compare-empty">
          {text ? "No job has such a name." : "No jobs yet. Launch some first."}
        </Text>
      )}
      {jobs.length > 0 && (
        <Table verticalSpacing={4} highlightOnHover>
          <Table.Tbody>
            {jobs.map((job) => (
              <Choice key={job.id} job={job} place={ticked.indexOf(job.id)} onToggle={() => toggle(job.id)} />
            ))}
          </Table.Tbody>
        </Table>
      )}
    </Paper>
  );
}

function Choice({ job, place, onToggle }: { job: JobSummary; place: number; onToggle: () => void }) {
  return (
    <Table.Tr bg={place >= 0 ? "var(--mantine-primary-color-light)" : undefined}>
      <Table.Td>
        <Checkbox
          size="sm"
          checked={place >= 0}
          onChange={onToggle}
          data-testid={`tick-${job.id}`}
          label={
            <>
              <Text span fw={600} size="sm" style={{ overflowWrap: "anywhere" }}>
                {job.name}
              </Text>{" "}
              <Text span size="xs" c="dimmed">
                {job.planned_by}, {job.workers} {job.workers === 1 ? "worker" : "workers"}
                {place === 0 && " · baseline"}
              </Text>
            </>
          }
        />
      </Table.Td>
      <Table.Td w={110}>
        <StateBadge state={job.state} />
      </Table.Td>
      <Table.Td w={120} className="ty-number" ta="right" visibleFrom="sm">
        <OrWhyNot why={WHY_NONE.steps}>
          {job.samples_per_s === null ? NONE : `${formatThroughput(job.samples_per_s)} samples/s`}
        </OrWhyNot>
      </Table.Td>
      <Table.Td w={100} className="ty-number" ta="right" visibleFrom="sm">
        {formatAge(Date.now() - Date.parse(job.created_at))}
      </Table.Td>
    </Table.Tr>
  );
}
