import { Box, Group, Paper, Table, Text, Title } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { Device } from "../../api/types";
import { StateBadge } from "../../components/StateBadge";
import { TakeTable } from "../../components/TakeTable";
import { type DeviceKind, deviceRows } from "../../lib/devices";
import { formatBytes, formatDuration } from "../../lib/format";

/** Devices of one kind: what each is, and who holds it. */
export function DeviceTable({ kind }: { kind: DeviceKind }) {
  const { title, devices, free } = kind;
  return (
    <Paper p="sm" data-testid={`devices-${kind.kind}`}>
      <Group justify="space-between" mb={4}>
        <Title order={2} fz="md">
          {title}
        </Title>
        <Text size="sm" c="dimmed" data-testid={`free-${kind.kind}`}>
          {free} of {devices.length} free
        </Text>
      </Group>
      <TakeTable file={title} rows={() => deviceRows(devices)}>
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
              <Row key={device.name} device={device} />
            ))}
          </Table.Tbody>
        </Table>
      </TakeTable>
    </Paper>
  );
}

function Row({ device }: { device: Device }) {
  const { name, model, memory_bytes, job_id, job_name, job_state, workers, since, drained_at } = device;
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
            {drained_at && Date.parse(drained_at) <= Date.now() ? "nobody" : "free"}
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
