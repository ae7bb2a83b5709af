import { Group, Text, Tooltip } from "@mantine/core";
import { OrWhyNot } from "../../components/OrWhyNot";
import { formatStepTime, NONE } from "../../lib/format";
import { WHY_NONE } from "../../lib/whyNone";

interface Props {
  iterationMs: number | null | undefined;
  exposedMs: number | null | undefined;
  /** The slowest of the raced jobs: the full width. */
  longestMs: number;
}

/** An iteration as a bar on the race's common scale, its exposed part in red at the end. */
export function IterationBar({ iterationMs, exposedMs, longestMs }: Props) {
  if (iterationMs === null || iterationMs === undefined || longestMs === 0)
    return <OrWhyNot why={WHY_NONE.steps}>{NONE}</OrWhyNot>;
  const exposed = Math.min(exposedMs ?? 0, iterationMs);
  const share = (ms: number) => `${(100 * ms) / longestMs}%`;
  const waited = typeof exposedMs === "number" ? `${formatStepTime(exposed)} exposed` : "exposed not known";
  const words = `${formatStepTime(iterationMs)} per iteration, of it ${waited}`;
  return (
    <Tooltip label={words}>
      <div role="img" aria-label={words}>
        <div style={{ display: "flex", height: 10, borderRadius: 3, overflow: "hidden" }}>
          <span style={{ width: share(iterationMs - exposed), background: "var(--ty-compute)" }} />
          <span style={{ width: share(exposed), background: "var(--ty-wait)" }} />
        </div>
        <Group gap={6} mt={2} wrap="nowrap">
          <Text size="xs" fw={600} className="ty-number">
            {formatStepTime(iterationMs)}
          </Text>
          <Text size="xs" c="dimmed" className="ty-number">
            {waited}
          </Text>
        </Group>
      </div>
    </Tooltip>
  );
}
