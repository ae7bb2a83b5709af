import type { LinkStretch } from "../api/types";
import type { Cell } from "./csv";
import { formatMs } from "./format";

/** `worker 0 sends`: whose traffic a column holds, and which way it went. */
export function movedHead({ shared, party_name, direction }: LinkStretch["links"][number]): string {
  return `${shared ? "machine" : party_name} ${direction}s`;
}

/** `129 ms in 7 waits`; empty where there were none. */
export function waitedWords({ waits, waited_ns }: { waits: number; waited_ns: number }): string {
  return waits > 0 ? `${formatMs(waited_ns / 1e6)} in ${waits} ${waits === 1 ? "wait" : "waits"}` : "";
}

/** A stretch as it is taken along: bytes, shares and times in columns of their own, as they were measured. */
export function stretchRows({ links, layers, waits, waited_ns }: LinkStretch): Cell[][] {
  const heads = links.flatMap((link) => {
    const which = `${movedHead(link)}, ${link.interface} on ${link.host}`;
    return [`${which} (bytes)`, `${which} (share of the rate)`];
  });
  return [
    ["layer", "waited for (ms)", "waits", ...heads],
    ["all", waited_ns / 1e6, waits, ...links.flatMap(({ bytes, share }) => [bytes, share])],
    ...layers.map((row) => [
      row.index < 0 ? "belongs to no layer" : row.layer,
      row.waited_ns / 1e6,
      row.waits,
      ...links.flatMap((_, link) => {
        const cell = row.moved.find((each) => each.link === link);
        return [cell?.bytes, cell?.share];
      }),
    ]),
  ];
}
