import { Badge } from "@mantine/core";
import type { RaceSummary } from "../../api/types";

const COLORS = { running: "blue", finished: "teal", cancelled: "gray" } as const;

export function RaceBadge({ state }: { state: RaceSummary["state"] }) {
  return (
    <Badge
      color={COLORS[state]}
      data-testid="race-state"
      data-state={state}
      leftSection={
        state === "running" ? (
          <span className="ty-dot" data-pulse="true" style={{ width: 6, height: 6 }} />
        ) : undefined
      }
    >
      {state}
    </Badge>
  );
}
