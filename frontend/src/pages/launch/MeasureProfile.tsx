import { Stack, Table, Text } from "@mantine/core";
import { IconStopwatch } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { client, unwrap } from "../../api/client";
import type { JobSpec, Profile } from "../../api/types";
import { AskingButton } from "../../components/AskingButton";
import { TakeTable } from "../../components/TakeTable";
import { Term } from "../../components/Term";
import type { Cell } from "../../lib/csv";
import { formatMs } from "../../lib/format";
import { planned } from "./usePlanPreview";

interface Props {
  spec: Record<string, unknown>;
  /** The measured profile's file, for the rehearsal to replay. */
  onMeasured: (path: string) => void;
}

/** Measures what each layer of the form's model takes on the server's machine, so that it can be rehearsed. */
export function MeasureProfile({ spec, onMeasured }: Props) {
  const measure = useMutation({
    mutationFn: () => unwrap(client.POST("/api/v1/profiles", { body: JSON.parse(planned(spec)) as JobSpec })),
    onSuccess: ({ path }) => onMeasured(path),
  });
  const found = measure.data;
  return (
    <Stack gap="xs" mt="sm">
      <AskingButton
        icon={<IconStopwatch size={14} />}
        label="Measure this model here"
        testId="measure-profile"
        pending={measure.isPending}
        onAsk={() => measure.mutate()}
        error={measure.error}
        problemTestId="profile-problem"
      >
        {measure.isPending ? (
          "The model trains alone for some steps …"
        ) : (
          <>
            Makes a <Term name="profile">profile</Term> of your model, in place of a device's derived times.
            Best while no job runs.
          </>
        )}
      </AskingButton>
      {found && (
        <>
          <Text size="xs" c="dimmed">
            Passes of {found.batch} samples on {found.device}: {found.hardware}
          </Text>
          {found.beside.length > 0 && (
            <Text size="xs" c="var(--mantine-color-orange-text)" data-testid="profile-beside">
              Meanwhile {found.beside.join(", ")} ran: times may be longer than alone. Measure again when
              nothing runs.
            </Text>
          )}
          <TakeTable file="profile" rows={() => profileRows(found)}>
            <Table.ScrollContainer minWidth={300} mah={260} type="native">
              <Table data-testid="profile">
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>Layer</Table.Th>
                    <Table.Th>Forward</Table.Th>
                    <Table.Th>Backward</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {found.layers.map(({ layer, layer_name, forward_ms, backward_ms }) => (
                    <Table.Tr key={layer}>
                      <Table.Td>{layer_name}</Table.Td>
                      <Table.Td>{formatMs(forward_ms)}</Table.Td>
                      <Table.Td>{formatMs(backward_ms)}</Table.Td>
                    </Table.Tr>
                  ))}
                  <Table.Tr>
                    <Table.Th>all</Table.Th>
                    <Table.Td>{formatMs(found.forward_ms)}</Table.Td>
                    <Table.Td>{formatMs(found.backward_ms)}</Table.Td>
                  </Table.Tr>
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
          </TakeTable>
        </>
      )}
    </Stack>
  );
}

function profileRows({ layers, forward_ms, backward_ms }: Profile): Cell[][] {
  return [
    ["layer", "forward (ms)", "backward (ms)"],
    ...layers.map((one) => [one.layer_name, one.forward_ms, one.backward_ms]),
    ["all", forward_ms, backward_ms],
  ];
}
