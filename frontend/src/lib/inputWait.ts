import type { Summary } from "../api/types";
import { formatPercent } from "./format";

/** Whose wait for its data is shown, and which part of that worker's step it is. */
export function inputNote(summary: Summary | undefined): string {
  const inputs = summary?.inputs ?? [];
  const longest = inputs.reduce<(typeof inputs)[number] | undefined>(
    (most, one) => (most === undefined || (one.share ?? 0) > (most.share ?? 0) ? one : most),
    undefined,
  );
  if (longest?.share == null) return "per iteration";
  const whose = inputs.length > 1 ? `worker ${longest.worker}'s` : "its";
  return `${formatPercent(longest.share)} of ${whose} iteration`;
}

/** The share of every worker's step, where there are several. */
export function inputShares(summary: Summary | undefined): string | undefined {
  const inputs = summary?.inputs ?? [];
  if (inputs.length < 2) return undefined;
  return inputs.map(({ worker, share }) => `Worker ${worker}: ${formatPercent(share)}`).join(", ");
}
