import { Badge } from "@mantine/core";
import type { RaceSummary } from "../../api/types";
import { raceState } from "../../lib/raceState";

export function RaceBadge({ race }: { race: RaceSummary }) {
  const { text, color } = raceState(race);
  return (
    <Badge
      color={color}
      style={{ maxWidth: "none" }}
      title={race.waits ?? undefined}
      data-testid="race-state"
      data-state={race.state}
      leftSection={
        race.state === "running" && !race.waits ? (
          <span className="ty-dot" data-pulse="true" style={{ width: 6, height: 6 }} />
        ) : undefined
      }
    >
      {text}
    </Badge>
  );
}
