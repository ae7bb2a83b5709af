import { Stack, Table } from "@mantine/core";
import { IconScale } from "@tabler/icons-react";
import { codecsQuery } from "../api/queries";
import type { JobSpec } from "../api/types";
import { formatBytes, formatMs } from "../lib/format";
import { called, payingRows, verdict } from "../lib/payingRows";
import { AskingButton } from "./AskingButton";
import { TakeTable } from "./TakeTable";
import { useAsked } from "./useAsked";

interface Props {
  /** The specification whose plan is shown. */
  spec: JobSpec;
  /** What its file is called. */
  file: string;
}

const BEFORE =
  "From which rate of the links down each would save time. Takes seconds, the first time some more: what codecs take on one core here is measured.";
const AFTER =
  "As if a step waited for the link and for one core, one after the other; encoding while others are on their way pays at higher rates, too. Says nothing about accuracy.";

/** Says, for who asks, where each codec would pay for the job. */
export function WhereCodecsPay({ spec, file }: Props) {
  const { found, asking } = useAsked(codecsQuery(spec));
  return (
    <Stack gap="xs" mt="sm">
      <AskingButton
        icon={<IconScale size={14} />}
        label="Where codecs pay"
        testId="ask-codecs"
        {...asking}
        problemTestId="codecs-problem"
      >
        {found ? AFTER : BEFORE}
      </AskingButton>
      {found && (
        <TakeTable file={`${file} codecs`} rows={() => payingRows(found)}>
          <Table.ScrollContainer minWidth={300} mah={320} type="native">
            <Table fz="xs" verticalSpacing={4} horizontalSpacing={6} stickyHeader data-testid="codecs-table">
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>Codec</Table.Th>
                  <Table.Th ta="right">Busiest port</Table.Th>
                  <Table.Th ta="right">Core time</Table.Th>
                  <Table.Th>Saves time</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {found.codecs.map((one) => (
                  <Table.Tr key={one.codec}>
                    <Table.Td>{called(one)}</Table.Td>
                    <Table.Td ta="right">{formatBytes(one.port_bytes)}</Table.Td>
                    <Table.Td ta="right">
                      {formatMs(typeof one.seconds === "number" ? 1e3 * one.seconds : null)}
                    </Table.Td>
                    <Table.Td>{verdict(one)}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        </TakeTable>
      )}
    </Stack>
  );
}
