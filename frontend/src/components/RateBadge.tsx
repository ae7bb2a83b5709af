import { Badge, Tooltip } from "@mantine/core";
import { formatRate } from "../lib/format";
import { useMeaning } from "./Term";

/** A job's rate, always with the words that say who keeps it: the links of its lab, or our transport. */
export function RateBadge({ bps, hosts }: { bps: number | null; hosts: number | null }) {
  const meaning = useMeaning(hosts === null ? "software-limited" : "lab");
  if (bps === null && hosts === null) return null;
  const limit = bps === null ? "not limited" : formatRate(bps);
  const shaped = hosts !== null;
  const whose = shaped ? "Of each host's link, of unequal ones the slowest's" : "Of each host's port";
  const label = `${whose}, per direction. ${meaning ?? ""}`;
  return (
    <Tooltip label={label}>
      <Badge size="xs" color={shaped ? "teal" : "grape"} variant="outline" style={{ flex: "none" }}>
        {limit} {shaped ? `on ${hosts} ${hosts === 1 ? "host" : "hosts"}` : "software-limited"}
      </Badge>
    </Tooltip>
  );
}
