import { Skeleton, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { devicesQuery, queueQuery } from "../../api/queries";
import { nodesQuery } from "../../api/shareQueries";
import { Problem } from "../../components/Problem";
import { usePageTitle } from "../../components/usePageTitle";
import { kinds } from "../../lib/devices";
import { DeviceTable } from "./DeviceTable";
import { MaintenancePanel } from "./MaintenancePanel";
import { NodeSection } from "./NodeSection";
import { ProjectsPanel } from "./ProjectsPanel";
import { QueueTable } from "./QueueTable";

/** Who holds what since when, and what waits for what and why, live. */
export function DevicesPage() {
  const devices = useQuery(devicesQuery);
  const queue = useQuery(queueQuery);
  const nodes = useQuery(nodesQuery);
  // A server that places no jobs is on no node, and has devices all the same.
  const unplaced = nodes.data?.length === 0 ? (devices.data ?? []) : [];
  const all = nodes.data?.flatMap((node) => node.devices) ?? [];
  const held = [...all, ...unplaced].filter(({ job_id }) => job_id !== null).length;
  usePageTitle(held > 0 ? `● ${held} held · Devices` : "Devices");
  return (
    <Stack gap="md" data-testid="devices">
      <div>
        <Title order={1} fz={24}>
          Devices
        </Title>
        <Text c="dimmed" size="sm">
          A job gets all its devices at once, one for each worker, on one node. A rehearsal computes nothing:
          all its workers take one slot.
        </Text>
      </div>
      {devices.error && <Problem error={devices.error} onRetry={() => void devices.refetch()} />}
      {nodes.error && <Problem error={nodes.error} onRetry={() => void nodes.refetch()} />}
      {(devices.isPending || nodes.isPending) && <Skeleton height={160} />}
      {nodes.data?.map((node) => (
        <NodeSection key={node.id} node={node} />
      ))}
      {kinds(unplaced).map((kind) => (
        <DeviceTable key={kind.kind} kind={kind} />
      ))}
      {devices.data && <MaintenancePanel devices={devices.data} />}
      {queue.error && <Problem error={queue.error} onRetry={() => void queue.refetch()} />}
      {queue.isPending && <Skeleton height={120} />}
      {queue.data && <QueueTable queue={queue.data} />}
      <ProjectsPanel />
    </Stack>
  );
}
