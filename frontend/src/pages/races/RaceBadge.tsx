import { Badge } from "@mantine/core";
import type { RaceSummary } from "../../api/types";

const COLORS = { running: "blue", finished: "teal", cancelled: "gray" } as const;

export function RaceBadge({ race: { state, waits } }: { race: Pick<RaceSummary, "state" | "waits"> }) {
  return (
    <Badge
      color={waits ? "gray" : COLORS[state]}
      title={waits ?? undefined}
      data-testid="race-state"
      data-state={state}
      leftSection={
        state === "running" && !waits ? (
          <span className="ty-dot" data-pulse="true" style={{ width: 6, height: 6 }} />
        ) : undefined
      }
    >
      {waits ? "waiting" : state}
    </Badge>
  );
}
