import { Box, Group, Paper, Table, Text, Title } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { Device } from "../../api/types";
import { StateBadge } from "../../components/StateBadge";
import { TakeTable } from "../../components/TakeTable";
import { type DeviceKind, deviceRows } from "../../lib/devices";
import { formatBytes, formatDuration } from "../../lib/format";

/** Devices of one kind, `of` a node, which may be away: what each is, and who holds it. */
export function DeviceTable({ kind, of, away = false }: { kind: DeviceKind; of?: string; away?: boolean }) {
  const { title, devices, free } = kind;
  const several = new Set(devices.map(({ server }) => server)).size > 1;
  return (
    <Paper p="sm" data-testid={`devices-${kind.kind}`}>
      <Group justify="space-between" mb={4}>
        <Title order={of === undefined ? 2 : 3} fz={of === undefined ? "md" : "sm"}>
          {title}
        </Title>
        <Text size="sm" c="dimmed" data-testid={`free-${kind.kind}`}>
          {away ? 0 : free} of {devices.length} free
        </Text>
      </Group>
      <TakeTable file={of === undefined ? title : `${title} of ${of}`} rows={() => deviceRows(devices)}>
        <Table className="ty-table" verticalSpacing={6}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th w="30%">Device</Table.Th>
              <Table.Th>Held by</Table.Th>
              <Table.Th w={170}>State</Table.Th>
              <Table.Th w={140} className="ty-right">
                Since
              </Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {devices.map((device) => (
              <Row key={`${device.server} ${device.name}`} device={device} said={several} away={away} />
            ))}
          </Table.Tbody>
        </Table>
      </TakeTable>
    </Paper>
  );
}

/** `said`: whose slot it is, as several servers have one of this name. */
function Row({ device, said, away }: { device: Device; said: boolean; away: boolean }) {
  const { name, server, model, memory_bytes, job_id, job_name, job_state, workers, since, drained_at } =
    device;
  const facts = [model, memory_bytes === null ? null : formatBytes(memory_bytes)].filter(Boolean).join(", ");
  return (
    <Table.Tr data-testid={`device-${name}`} data-free={job_id === null}>
      <Table.Td>
        <Group gap={8} wrap="nowrap">
          <Box
            component="span"
            className="ty-dot"
            aria-hidden
            style={{ background: job_id === null ? undefined : "var(--ty-compute)" }}
          />
          <div>
            <Text ff="monospace" size="sm">
              {name}
            </Text>
            {said && (
              <Text size="xs" c="dimmed">
                of {server}
              </Text>
            )}
            {facts && (
              <Text size="xs" c="dimmed">
                {facts}
              </Text>
            )}
          </div>
        </Group>
      </Table.Td>
      <Table.Td data-label="Held by">
        {job_id === null ? (
          <Text size="sm" c="dimmed">
            {away || (drained_at && Date.parse(drained_at) <= Date.now()) ? "nobody" : "free"}
          </Text>
        ) : (
          <>
            <Link to="/jobs/$jobId" params={{ jobId: job_id }} className="ty-link">
              {job_name}
            </Link>
            {workers > 1 && (
              <Text size="xs" c="dimmed">
                {workers} workers
              </Text>
            )}
          </>
        )}
      </Table.Td>
      <Table.Td data-label="State">
        {job_state && <StateBadge state={job_state} />}
        {drained_at && (
          <Text size="xs" c="dimmed" data-testid="drained">
            {Date.parse(drained_at) <= Date.now()
              ? "out of use"
              : `out of use from ${new Date(drained_at).toLocaleString()}`}
          </Text>
        )}
      </Table.Td>
      <Table.Td data-label="Since" className="ty-number ty-right">
        {since && (
          <span title={new Date(since).toLocaleString()}>
            {formatDuration((Date.now() - Date.parse(since)) / 1000)}
          </span>
        )}
      </Table.Td>
    </Table.Tr>
  );
}
