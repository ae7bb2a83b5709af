import { Button, Checkbox, Group, Paper, Skeleton, Table, Text, TextInput, Title } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconChartLine, IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { namedJobsQuery } from "../api/queries";
import type { JobSummary } from "../api/types";
import { toldApart } from "../lib/apart";
import { formatAge, formatThroughput, NONE } from "../lib/format";
import { WHY_NONE } from "../lib/whyNone";
import { OrWhyNot } from "./OrWhyNot";
import { Problem } from "./Problem";
import { StateBadge } from "./StateBadge";

const TYPED_MS = 200;

interface Props {
  /** How many may be ticked. */
  fewest: number;
  most: number;
  /** What the button says that happens with so many. */
  action: (count: number) => string;
  /** What to tick, in a sentence or two. */
  hint: string;
  /** What the first one that is ticked is for the others. */
  first?: string;
  onJobs: (ids: string[]) => void;
}

/** The newest jobs, or those with a name, to be ticked, for what happens to several at once. */
export function ChooseJobs({ fewest, most, action, hint, first, onJobs }: Props) {
  const [typed, setTyped] = useState("");
  const [text] = useDebouncedValue(typed, TYPED_MS);
  const [ticked, setTicked] = useState<string[]>([]);
  const query = useQuery(namedJobsQuery(text));
  const jobs = toldApart(query.data?.items ?? []);
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
            disabled={ticked.length < fewest || ticked.length > most}
            onClick={() => onJobs(ticked)}
            data-testid="use-ticked"
          >
            {ticked.length > most ? `At most ${most}` : action(ticked.length)}
          </Button>
        </Group>
      </Group>
      <Text size="sm" c="dimmed" mb="xs">
        {hint}
      </Text>
      {query.error && <Problem error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton height={200} />}
      {query.data && jobs.length === 0 && (
        <Text c="dimmed" py="lg" ta="center" data-testid="choose-empty">
          {text ? "No job has such a name." : "No jobs yet. Launch some first."}
        </Text>
      )}
      {jobs.length > 0 && (
        <Table verticalSpacing={4} highlightOnHover>
          <Table.Tbody>
            {jobs.map((job) => (
              <Choice
                key={job.id}
                job={job}
                ticked={ticked.includes(job.id)}
                note={ticked[0] === job.id ? first : undefined}
                onToggle={() => toggle(job.id)}
              />
            ))}
          </Table.Tbody>
        </Table>
      )}
    </Paper>
  );
}

interface ChoiceProps {
  job: JobSummary;
  ticked: boolean;
  note: string | undefined;
  onToggle: () => void;
}

function Choice({ job, ticked, note, onToggle }: ChoiceProps) {
  return (
    <Table.Tr bg={ticked ? "var(--mantine-primary-color-light)" : undefined}>
      <Table.Td>
        <Checkbox
          size="sm"
          checked={ticked}
          onChange={onToggle}
          data-testid={`tick-${job.id}`}
          label={
            <>
              <Text span fw={600} size="sm" style={{ overflowWrap: "anywhere" }}>
                {job.name}
              </Text>{" "}
              <Text span size="xs" c="dimmed">
                {job.planned_by}, {job.workers} {job.workers === 1 ? "worker" : "workers"}
                {note && ` · ${note}`}
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
