import { Badge, Tooltip } from "@mantine/core";
import { formatRate } from "../lib/format";

/** A job's rate, always with the words that say who keeps it: the links of its lab, or our transport. */
export function RateBadge({ bps, hosts }: { bps: number | null; hosts: number | null }) {
  if (bps === null && hosts === null) return null;
  const limit = bps === null ? "not limited" : formatRate(bps);
  const shaped = hosts !== null;
  const label = shaped
    ? "Network namespaces on one machine; the kernel shapes each host's link, per direction. Of unequal hosts: the slowest"
    : "Each host's port, per direction, paced in software by Trainyard's transport";
  return (
    <Tooltip label={label}>
      <Badge size="xs" color={shaped ? "teal" : "grape"} variant="outline" style={{ flex: "none" }}>
        {limit} {shaped ? `on ${hosts} ${hosts === 1 ? "host" : "hosts"}` : "software-limited"}
      </Badge>
    </Tooltip>
  );
}
