import { Group, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { Tip } from "../../components/Tip";
import { COMING, formatStepTime, NONE } from "../../lib/format";
import { WHY_NONE } from "../../lib/whyNone";

interface Props {
  iterationMs: number | null | undefined;
  exposedMs: number | null | undefined;
  /** The slowest of the raced jobs: the full width. */
  longestMs: number;
  /** The figures are on their way. */
  coming?: boolean;
}

/** An iteration as a bar on the race's common scale, its exposed part in red at the end. Before there are figures, why
 * there are none, in the same element: who is there with the keyboard stays there when they come. */
export function IterationBar({ iterationMs, exposedMs, longestMs, coming = false }: Props) {
  const known = typeof iterationMs === "number" && longestMs > 0;
  const exposed = known && typeof exposedMs === "number" ? Math.min(exposedMs, iterationMs) : undefined;
  const waited = exposed === undefined ? "exposed not known" : `${formatStepTime(exposed)} exposed`;
  const words = known ? `${formatStepTime(iterationMs)} per iteration, of it ${waited}` : WHY_NONE.steps;
  return (
    <Tip label={words} disabled={coming}>
      <div role="img" aria-label={coming ? "on its way" : words} tabIndex={known || coming ? -1 : 0}>
        {known ? (
          <Parts iterationMs={iterationMs} exposedMs={exposed ?? 0} longestMs={longestMs}>
            {waited}
          </Parts>
        ) : (
          <span className="ty-number">{coming ? COMING : NONE}</span>
        )}
      </div>
    </Tip>
  );
}

interface PartsProps {
  iterationMs: number;
  exposedMs: number;
  longestMs: number;
  children: ReactNode;
}

function Parts({ iterationMs, exposedMs, longestMs, children }: PartsProps) {
  const share = (ms: number) => `${(100 * ms) / longestMs}%`;
  return (
    <>
      <div style={{ display: "flex", height: 10, borderRadius: 3, overflow: "hidden" }}>
        <span style={{ width: share(iterationMs - exposedMs), background: "var(--ty-compute)" }} />
        <span style={{ width: share(exposedMs), background: "var(--ty-wait)" }} />
      </div>
      <Group gap={6} mt={2} wrap="nowrap">
        <Text size="xs" fw={600} className="ty-number">
          {formatStepTime(iterationMs)}
        </Text>
        <Text size="xs" c="dimmed" className="ty-number">
          {children}
        </Text>
      </Group>
    </>
  );
}
