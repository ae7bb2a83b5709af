import { Badge, Tooltip } from "@mantine/core";
import { formatRate } from "../lib/format";

/** A rate that our transport paces, always with the word that says so. */
export function RateBadge({ bps }: { bps: number | null }) {
  if (bps === null) return null;
  return (
    <Tooltip label="Each host's port, per direction, paced in software by Trainyard's transport">
      <Badge size="xs" color="grape" variant="outline" style={{ flex: "none" }}>
        {formatRate(bps)} software-limited
      </Badge>
    </Tooltip>
  );
}
