import { Group, Text, Tooltip } from "@mantine/core";
import { formatMs } from "../../lib/format";

interface Props {
  iterationMs: number | null | undefined;
  exposedMs: number | null | undefined;
  /** The slowest of the raced jobs: the full width. */
  longestMs: number;
}

/** An iteration as a bar on the race's common scale, its exposed part in red at the end. */
export function IterationBar({ iterationMs, exposedMs, longestMs }: Props) {
  if (iterationMs === null || iterationMs === undefined || longestMs === 0) return <Text c="dimmed">–</Text>;
  const exposed = Math.min(exposedMs ?? 0, iterationMs);
  const share = (ms: number) => `${(100 * ms) / longestMs}%`;
  const words = `${formatMs(iterationMs)} per iteration, of it ${formatMs(exposed)} exposed`;
  return (
    <Tooltip label={words}>
      <div role="img" aria-label={words}>
        <div style={{ display: "flex", height: 10, borderRadius: 3, overflow: "hidden" }}>
          <span style={{ width: share(iterationMs - exposed), background: "var(--ty-compute)" }} />
          <span style={{ width: share(exposed), background: "var(--ty-wait)" }} />
        </div>
        <Group gap={6} mt={2} wrap="nowrap">
          <Text size="xs" fw={600} className="ty-number">
            {formatMs(iterationMs)}
          </Text>
          <Text size="xs" c="dimmed" className="ty-number">
            {formatMs(exposed)} exposed
          </Text>
        </Group>
      </div>
    </Tooltip>
  );
}
