import { Stack, Table, Text } from "@mantine/core";
import { IconRulerMeasure } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { ForMembers } from "../../access/ForMembers";
import { heldQuery, memoryQuery } from "../../api/queries";
import type { Job } from "../../api/types";
import { AskingButton } from "../../components/AskingButton";
import { JobFigure } from "../../components/JobFigure";
import type { XRange } from "../../components/PlotlyChart";
import { TakeTable } from "../../components/TakeTable";
import { useAsked } from "../../components/useAsked";
import { formatBytes, formatFixed, NONE } from "../../lib/format";
import { type HeldRow, heldCells, heldRows } from "../../lib/heldRows";
import { highest } from "../../lib/memoryRows";
import type { Ends } from "../../lib/zoom";

interface Props {
  job: Job;
  /** The one that is shown; undefined: the latest. */
  attempt: number | undefined;
  name: string;
  zoom?: Ends;
  onXRange: (range: XRange) => void;
}

/** What workers held in memory over the steps and by layer, beside what is predicted, for who asks. */
export function MemoryPanel({ job, attempt, ...figure }: Props) {
  const { found, asking } = useAsked(memoryQuery(job.spec));
  const held = useQuery(heldQuery(job.id, attempt)).data;
  const rows = held ? heldRows(held) : [];
  const predictable = job.plan.peer === null && job.spec.fidelity === "train";
  return (
    <JobFigure
      jobId={job.id}
      attempt={attempt}
      predicted={found?.memory.total}
      footer={
        <Stack gap="xs" mt="xs">
          {predictable && (
            <ForMembers>
              <AskingButton
                icon={<IconRulerMeasure size={14} />}
                label="Predict the peak"
                testId="predict-peak"
                {...asking}
                problemTestId="peak-problem"
              >
                {found
                  ? `${highest(found)}, drawn above what worker 0 held at its first sample: libraries are not predicted`
                  : "Draws a worker's predicted peak beside what was measured. Takes seconds."}
              </AskingButton>
            </ForMembers>
          )}
          {rows.length > 0 && <Layers file={`${job.name} memory by layer`} rows={rows} />}
        </Stack>
      }
      {...figure}
    />
  );
}

function Layers({ file, rows }: { file: string; rows: HeldRow[] }) {
  return (
    <>
      <Text size="xs" c="dimmed">
        By layer, in the newest step: saved is what was in memory for backward when that began; swapped out is
        what had left for the host or the disk by then; computed again is what a second forward saved. On the
        host only layers that swap or recompute are counted; the plan predicts the others, too.
      </Text>
      <TakeTable file={file} rows={() => heldCells(rows)}>
        <Table.ScrollContainer minWidth={300} mah={260} type="native">
          <Table fz="xs" verticalSpacing={4} horizontalSpacing={6} stickyHeader data-testid="held-table">
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Worker</Table.Th>
                <Table.Th>Layer</Table.Th>
                <Table.Th ta="right">Saved</Table.Th>
                <Table.Th ta="right">Swapped out</Table.Th>
                <Table.Th ta="right">Computed again</Table.Th>
                <Table.Th ta="right">Waited</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {rows.map((row) => (
                <Table.Tr key={row.key}>
                  <Table.Td>{row.worker}</Table.Td>
                  <Table.Td>{row.layer}</Table.Td>
                  <Table.Td ta="right">{size(row.saved)}</Table.Td>
                  <Table.Td ta="right">{size(row.left || null)}</Table.Td>
                  <Table.Td ta="right">{size(row.again || null)}</Table.Td>
                  <Table.Td ta="right">
                    {row.waited_ms > 0 ? `${formatFixed(row.waited_ms, 1)} ms` : NONE}
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      </TakeTable>
    </>
  );
}

const size = (bytes: number | null) => (bytes === null ? NONE : formatBytes(bytes));
