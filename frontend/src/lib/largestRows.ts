// The largest batch of a job in a given memory, as rows. No React here.
import type { LargestBatchView } from "../api/types";
import type { Cell } from "./csv";
import { formatBytes, formatNumber, NONE } from "./format";

type Way = LargestBatchView["largest"]["ways"][number];

/** How much longer a pass takes than with everything kept. */
export function slowDown(way: Way): string {
  return way.slow_down === null ? NONE : `${Math.round(100 * way.slow_down)} %`;
}

/** What a budget chooses is a mixture: with how many layers are treated how. */
export function wayName({ way, layers }: Way): string {
  const mixed = Object.entries(layers ?? {}).map(([name, count]) => `${count} ${name}`);
  return mixed.length > 0 ? `${way} (${mixed.join(", ")})` : way;
}

/** The most that any way has, in a sentence. The memory is said, too: another one may be typed by now. */
export function best({ largest }: LargestBatchView): string {
  const top = largest.ways.reduce((one, other) => (other.samples > one.samples ? other : one));
  const room = `In ${formatBytes(largest.memory)}`;
  const kept = largest.ways.find((way) => way.way === "keep")?.samples ?? 0;
  const times =
    kept > 0 && kept < top.samples ? `, ${(top.samples / kept).toFixed(1)} times as many as with keep` : "";
  return `${room} a pass may have ${formatNumber(top.samples, 9)} samples with ${top.way}${times}.`;
}

/** The table as rows of a file. */
export function largestRows({ largest }: LargestBatchView): Cell[][] {
  return [
    ["activations", "samples of a pass", "global batch", "predicted peak (B)", "slow-down", "limit"],
    ...largest.ways.map((way) => [
      wayName(way),
      way.samples,
      way.global_batch,
      way.peak,
      way.slow_down,
      way.refused || way.limit,
    ]),
  ];
}
