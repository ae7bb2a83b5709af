import { Paper, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Fragment } from "react";
import { useWho } from "../../access/useWho";
import { maintenanceQuery } from "../../api/shareQueries";
import type { Device, Maintenance } from "../../api/types";
import { LinkAnchor } from "../../components/links";
import { Problem } from "../../components/Problem";
import { TakeTable } from "../../components/TakeTable";
import { maintenanceRows } from "../../lib/devices";
import { BeginMaintenance } from "./BeginMaintenance";
import { GiveBack } from "./GiveBack";

/** Devices that are out of use, or will be; admins begin and end it. Nothing where there is neither. */
export function MaintenancePanel({ devices }: { devices: Device[] }) {
  const { data, error, refetch } = useQuery(maintenanceQuery);
  const admin = useWho().role === "admin";
  if (error) return <Problem error={error} onRetry={() => void refetch()} />;
  if (!data || (data.length === 0 && !admin)) return null;
  return (
    <Paper p="sm" data-testid="maintenance">
      <Title order={2} fz="md" mb={4}>
        Maintenance
      </Title>
      {data.length === 0 ? (
        <Text size="sm" c="dimmed">
          No device is out of use.
        </Text>
      ) : (
        <TakeTable file="maintenance" rows={() => maintenanceRows(data)}>
          <Table className="ty-table" verticalSpacing={6}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th w="30%">Devices</Table.Th>
                <Table.Th w={190}>Begins</Table.Th>
                <Table.Th>Who runs there</Table.Th>
                <Table.Th>What for</Table.Th>
                {admin && <Table.Th w={130} />}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {data.map((one) => (
                <Row key={one.id} one={one} admin={admin} />
              ))}
            </Table.Tbody>
          </Table>
        </TakeTable>
      )}
      {admin && <BeginMaintenance devices={devices} />}
    </Paper>
  );
}

function Row({ one, admin }: { one: Maintenance; admin: boolean }) {
  const { id, devices, node, server, begins_at, ends_at, makes_room, holders, note, who } = one;
  const named = devices?.join(", ") ?? "all devices";
  const whose = node ?? server;
  return (
    <Table.Tr data-testid={`maintenance-${id}`}>
      <Table.Td style={{ overflowWrap: "anywhere" }}>
        {named}
        <Text size="xs" c="dimmed">
          of {whose}
        </Text>
      </Table.Td>
      <Table.Td data-label="Begins" className="ty-number">
        {new Date(begins_at).toLocaleString()}
        {ends_at && (
          <Text size="xs" c="dimmed">
            until {new Date(ends_at).toLocaleString()}
          </Text>
        )}
      </Table.Td>
      <Table.Td data-label="Who runs there">
        {holders.map(({ job_id, job_name }) => (
          <Fragment key={job_id}>
            <LinkAnchor to="/jobs/$jobId" params={{ jobId: job_id }} size="sm">
              {job_name}
            </LinkAnchor>{" "}
          </Fragment>
        ))}
        <Text size="xs" c="dimmed">
          {holders.length === 0
            ? "nobody"
            : makes_room
              ? "makes room, if it has checkpoints"
              : "ends as ever"}
        </Text>
      </Table.Td>
      <Table.Td data-label="What for" style={{ overflowWrap: "anywhere" }}>
        {note ?? ""}
        {who && (
          <Text size="xs" c="dimmed">
            by {who}
          </Text>
        )}
      </Table.Td>
      {admin && (
        <Table.Td>
          <GiveBack maintenance={one} />
        </Table.Td>
      )}
    </Table.Tr>
  );
}
