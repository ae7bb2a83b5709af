import { Badge } from "@mantine/core";
import type { Job } from "../api/types";
import { limitText } from "../lib/compareRows";
import { useMeaning } from "./Term";
import { Tip } from "./Tip";

/** A job's rate, always with the words that say who keeps it: the links of its lab, or our transport. */
export function RateBadge({ job }: { job: Pick<Job, "rate_bps" | "fastest_bps" | "hosts"> }) {
  const { rate_bps: bps, hosts } = job;
  const meaning = useMeaning(hosts === null ? "software-limited" : "lab");
  if (bps === null && hosts === null) return null;
  const limit = limitText(job);
  const shaped = hosts !== null;
  const whose = shaped
    ? "Of each host's link, of unequal ones the least and the most"
    : "Of each host's port";
  const label = `${whose}, per direction. ${meaning ?? ""}`;
  return (
    <Tip label={label}>
      <Badge
        size="xs"
        color={shaped ? "teal" : "grape"}
        variant="outline"
        h="auto"
        mih="var(--badge-height)"
        style={{ flex: "none" }}
        styles={{ label: { whiteSpace: "normal" } }} // in a narrow column it takes two lines
      >
        {limit} {shaped ? `on ${hosts} ${hosts === 1 ? "host" : "hosts"}` : "software-limited"}
      </Badge>
    </Tip>
  );
}
