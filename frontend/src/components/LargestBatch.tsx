import { Stack, Table, TextInput } from "@mantine/core";
import { IconArrowsMaximize } from "@tabler/icons-react";
import { useState } from "react";
import { largestBatchQuery } from "../api/queries";
import type { JobSpec } from "../api/types";
import { formatBytes, formatNumber, NONE } from "../lib/format";
import { best, largestRows, slowDown, wayName } from "../lib/largestRows";
import { AskingButton } from "./AskingButton";
import { LargestFigure } from "./LargestFigure";
import { TakeTable } from "./TakeTable";
import { useAsked } from "./useAsked";

interface Props {
  /** The specification whose plan is shown. */
  spec: JobSpec;
  /** What its file is called. */
  file: string;
}

/** Finds, for who asks, the largest batch of a job in a given memory. */
export function LargestBatch({ spec, file }: Props) {
  const [memory, setMemory] = useState("16GiB");
  const { found, asking } = useAsked(largestBatchQuery(spec, memory));
  return (
    <Stack gap="xs" mt="sm">
      <TextInput
        size="xs"
        w={220}
        label="Memory that a worker has"
        description="A size, such as 16GiB or 800MB"
        value={memory}
        onChange={(event) => setMemory(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !asking.pending) asking.onAsk();
        }}
        data-testid="largest-memory"
      />
      <AskingButton
        icon={<IconArrowsMaximize size={14} />}
        label="Find the largest batch"
        testId="find-largest"
        {...asking}
        problemTestId="largest-problem"
      >
        {found
          ? best(found)
          : "With all activations kept, and with those that need less memory. Takes up to a minute."}
      </AskingButton>
      {found && (
        <TakeTable file={`${file} largest batch`} rows={() => largestRows(found)}>
          <Table.ScrollContainer minWidth={300} type="native">
            <Table fz="xs" verticalSpacing={4} horizontalSpacing={6} data-testid="largest-table">
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>Activations</Table.Th>
                  <Table.Th ta="right">Samples of a pass</Table.Th>
                  <Table.Th ta="right">Global batch</Table.Th>
                  <Table.Th ta="right">Predicted peak</Table.Th>
                  <Table.Th ta="right">Slow-down</Table.Th>
                  <Table.Th>Limit</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {found.largest.ways.map((way) => (
                  <Table.Tr key={way.way}>
                    <Table.Td>{wayName(way)}</Table.Td>
                    <Table.Td ta="right">{way.refused ? NONE : formatNumber(way.samples, 9)}</Table.Td>
                    <Table.Td ta="right">{way.refused ? NONE : formatNumber(way.global_batch, 9)}</Table.Td>
                    <Table.Td ta="right">{way.refused ? NONE : formatBytes(way.peak)}</Table.Td>
                    <Table.Td ta="right">{slowDown(way)}</Table.Td>
                    <Table.Td>{way.refused || way.limit}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        </TakeTable>
      )}
      {found && (
        <LargestFigure
          key={`${found.largest.memory} ${JSON.stringify(spec)}`}
          spec={spec}
          memory={found.largest.memory}
          file={file}
        />
      )}
    </Stack>
  );
}
