import { Badge } from "@mantine/core";
import type { JobState } from "../api/types";
import { STATES } from "../lib/jobState";

export function StateBadge({ state, size = "sm" }: { state: JobState; size?: "sm" | "md" | "lg" }) {
  const shown = STATES[state];
  const moving = shown.live && state !== "queued";
  return (
    <Badge
      color={shown.color}
      size={size}
      data-testid="state"
      data-state={state}
      style={{ flex: "none" }}
      leftSection={
        moving ? <span className="ty-dot" data-pulse="true" style={{ width: 6, height: 6 }} /> : undefined
      }
    >
      {shown.label}
    </Badge>
  );
}
