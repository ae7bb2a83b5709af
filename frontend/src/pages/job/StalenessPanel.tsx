import { Paper, Skeleton, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { stalenessQuery } from "../../api/queries";
import type { Job, Staleness } from "../../api/types";
import { JobFigure } from "../../components/JobFigure";
import { NumberCell } from "../../components/NumberCell";
import type { XRange } from "../../components/PlotlyChart";
import { Problem } from "../../components/Problem";
import { TakeTable } from "../../components/TakeTable";
import { Term } from "../../components/Term";
import { formatMean, stalenessRows, stalenessWords } from "../../lib/staleness";
import { withZoom, zoomsOf } from "../../lib/zoom";

interface Props {
  job: Job;
  /** The one that is shown; undefined: the latest. */
  attempt: number | undefined;
  /** Which parts of their x axes figures show. */
  zoom: string[] | undefined;
  onZoom: (zoom: string[] | undefined) => void;
}

/** How stale contributions were, and who is ahead of whom: of a job whose workers do not wait for one another. */
export function StalenessPanel({ job, attempt, zoom, onZoom }: Props) {
  const shown = { jobId: job.id, attempt };
  return (
    <Stack gap="md">
      <Workers job={job} attempt={attempt} />
      <JobFigure
        {...shown}
        name="drift"
        zoom={zoomsOf(zoom).drift}
        onXRange={(range: XRange) => onZoom(withZoom(zoom, "drift", range))}
      />
      <JobFigure {...shown} name="staleness" />
    </Stack>
  );
}

function Workers({ job, attempt }: { job: Job; attempt: number | undefined }) {
  const query = useQuery(stalenessQuery(job.id, attempt));
  const found = query.data;
  return (
    <Paper p="sm" data-testid="staleness">
      <Title order={2} fz="md" mb={4}>
        Workers
      </Title>
      {query.error && <Problem error={query.error} onRetry={() => void query.refetch()} />}
      {!found && !query.error && <Skeleton height={120} />}
      {found && (
        <>
          <Text size="sm" c="dimmed" mb="xs" data-testid="staleness-words">
            {stalenessWords(found)}
          </Text>
          {found.everything.contributions > 0 && (
            <TakeTable file={`${job.name} workers`} rows={() => stalenessRows(found.workers)}>
              <Table fz="sm" className="ty-table" verticalSpacing={4} data-testid="staleness-workers">
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>Worker</Table.Th>
                    <Table.Th className="ty-right">Steps</Table.Th>
                    <Table.Th className="ty-right">
                      <Term name="steps ahead">Ahead</Term>
                    </Table.Th>
                    <Table.Th className="ty-right">Most ahead</Table.Th>
                    <Table.Th className="ty-right">Contributions</Table.Th>
                    <Table.Th className="ty-right">
                      <Term name="staleness">Mean staleness</Term>
                    </Table.Th>
                    <Table.Th className="ty-right">Highest</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {found.workers.map((worker) => (
                    <Row key={worker.worker} worker={worker} />
                  ))}
                </Table.Tbody>
              </Table>
            </TakeTable>
          )}
        </>
      )}
    </Paper>
  );
}

const NONE = "Nothing that it contributed was applied.";

function Row({ worker }: { worker: Staleness["workers"][number] }) {
  const { name, steps, ahead, most_ahead, contributions, mean, most } = worker;
  return (
    <Table.Tr>
      <Table.Td>{name}</Table.Td>
      <NumberCell label="Steps">{steps.toLocaleString("en")}</NumberCell>
      <NumberCell label="Ahead">{ahead.toLocaleString("en")}</NumberCell>
      <NumberCell label="Most ahead">{most_ahead.toLocaleString("en")}</NumberCell>
      <NumberCell label="Applied">{contributions.toLocaleString("en")}</NumberCell>
      <NumberCell label="Mean staleness" none={NONE}>
        {formatMean(mean)}
      </NumberCell>
      <NumberCell label="Highest" none={NONE}>
        {most?.toLocaleString("en") ?? "–"}
      </NumberCell>
    </Table.Tr>
  );
}
