import { Stack, Table, Text } from "@mantine/core";
import { IconRulerMeasure } from "@tabler/icons-react";
import { memoryQuery } from "../api/queries";
import type { JobSpec } from "../api/types";
import { formatBytes } from "../lib/format";
import { layerTitle } from "../lib/layerTitle";
import { highest, madeOf, memoryRows } from "../lib/memoryRows";
import { AskingButton } from "./AskingButton";
import { TakeTable } from "./TakeTable";
import { useAsked } from "./useAsked";

interface Props {
  /** The specification whose plan is shown. */
  spec: JobSpec;
  /** What its file is called. */
  file: string;
}

/** Predicts, for who asks, what a worker of the job would hold in memory. It ends where they leave. */
export function WorkerMemory({ spec, file }: Props) {
  const { found, asking } = useAsked(memoryQuery(spec));
  return (
    <Stack gap="xs" mt="sm">
      <AskingButton
        icon={<IconRulerMeasure size={14} />}
        label="Predict a worker's memory"
        testId="predict-memory"
        {...asking}
        problemTestId="memory-problem"
      >
        {found ? highest(found) : "On the host, without running the job. Takes seconds."}
      </AskingButton>
      {found && (
        <>
          <Text size="xs" c="dimmed" data-testid="memory-parts">
            {madeOf(found)
              .map(([part, bytes]) => `${part} ${formatBytes(bytes)}`)
              .join(", ")}
          </Text>
          <TakeTable file={`${file} memory`} rows={() => memoryRows(found)}>
            <Table.ScrollContainer minWidth={300} mah={320} type="native">
              <Table
                fz="xs"
                verticalSpacing={4}
                horizontalSpacing={6}
                stickyHeader
                data-testid="memory-table"
              >
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>Layer</Table.Th>
                    <Table.Th>Activations</Table.Th>
                    <Table.Th ta="right">Declared</Table.Th>
                    <Table.Th ta="right">Saved for backward</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {found.memory.layers.map((row) => (
                    <Table.Tr key={row.layer}>
                      <Table.Td>{layerTitle(row)}</Table.Td>
                      <Table.Td>{row.activations}</Table.Td>
                      <Table.Td ta="right">{formatBytes(row.declared)}</Table.Td>
                      <Table.Td ta="right">{formatBytes(row.saved)}</Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
          </TakeTable>
        </>
      )}
    </Stack>
  );
}
