import type { Why } from "../api/types";
import type { Cell } from "./csv";

type Stretch = Why["stretches"][number];

/** What a message may be in the middle of while somebody waits for it, as people read it. */
export const CAUSES: Record<Stretch["cause"], { label: string; color: string }> = {
  compute: { label: "Being computed", color: "var(--ty-compute)" },
  queue: { label: "Queued", color: "var(--ty-wait)" },
  held: { label: "Held back", color: "var(--mantine-color-orange-5)" },
  wire: { label: "On the wire", color: "var(--mantine-color-indigo-4)" },
  reduce: { label: "Summed, updated", color: "var(--mantine-color-teal-6)" },
  collective: { label: "Native collective", color: "var(--mantine-color-indigo-4)" },
  apply: { label: "Taken in", color: "var(--mantine-color-grape-5)" },
  unknown: { label: "Not recorded", color: "var(--mantine-color-gray-5)" },
};

/** An explained wait as it is taken along: every stretch of it, also the shortest, in ms since it began. */
export function whyRows({ stretches, start_ns }: Why): Cell[][] {
  const head = ["what happened", "where", "to", "after (ms)", "for (ms)", "layers ahead"];
  const rows = stretches.map(({ cause, party, peer, from_ns, to_ns, ahead }) => [
    CAUSES[cause].label,
    party,
    peer,
    (from_ns - start_ns) / 1e6,
    (to_ns - from_ns) / 1e6,
    ahead.map((other) => `${other.layer_name || "control"} (${other.ns / 1e6} ms)`).join("; "),
  ]);
  return [head, ...rows];
}
