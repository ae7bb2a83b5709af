import { Skeleton, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { devicesQuery, queueQuery } from "../../api/queries";
import { Problem } from "../../components/Problem";
import { usePageTitle } from "../../components/usePageTitle";
import { kinds } from "../../lib/devices";
import { DeviceTable } from "./DeviceTable";
import { MaintenancePanel } from "./MaintenancePanel";
import { ProjectsPanel } from "./ProjectsPanel";
import { QueueTable } from "./QueueTable";

/** Who holds what since when, and what waits for what and why, live. */
export function DevicesPage() {
  const devices = useQuery(devicesQuery);
  const queue = useQuery(queueQuery);
  const held = devices.data?.filter(({ job_id }) => job_id !== null).length ?? 0;
  usePageTitle(held > 0 ? `● ${held} held · Devices` : "Devices");
  return (
    <Stack gap="md" data-testid="devices">
      <div>
        <Title order={1} fz={24}>
          Devices
        </Title>
        <Text c="dimmed" size="sm">
          A job gets all its devices at once, one for each worker. A rehearsal computes nothing: all its
          workers take one slot.
        </Text>
      </div>
      {devices.error && <Problem error={devices.error} onRetry={() => void devices.refetch()} />}
      {devices.isPending && <Skeleton height={160} />}
      {devices.data && kinds(devices.data).map((kind) => <DeviceTable key={kind.kind} kind={kind} />)}
      {devices.data && <MaintenancePanel devices={devices.data} />}
      {queue.error && <Problem error={queue.error} onRetry={() => void queue.refetch()} />}
      {queue.isPending && <Skeleton height={120} />}
      {queue.data && <QueueTable queue={queue.data} />}
      <ProjectsPanel />
    </Stack>
  );
}
