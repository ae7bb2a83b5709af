import type { LinkStretch } from "../api/types";
import type { Cell } from "./csv";

/** `worker 0 sends`: whose traffic a column holds, and which way it went. */
export function movedHead({ shared, party_name, direction }: LinkStretch["links"][number]): string {
  return `${shared ? "machine" : party_name} ${direction}s`;
}

/** A stretch as it is taken along: bytes, shares and times in columns of their own, as they were measured. */
export function stretchRows({ links, layers }: LinkStretch): Cell[][] {
  const heads = links.flatMap((link) => {
    const which = `${movedHead(link)}, ${link.interface} on ${link.host}`;
    return [`${which} (bytes)`, `${which} (share of the rate)`];
  });
  return [
    ["layer", "waited for (ms)", "waits", ...heads],
    ["all", null, null, ...links.flatMap(({ bytes, share }) => [bytes, share])],
    ...layers.map((row) => [
      row.index < 0 ? "of no layer" : row.layer,
      row.waited_ns / 1e6,
      row.waits,
      ...links.flatMap((_, link) => {
        const cell = row.moved.find((each) => each.link === link);
        return [cell?.bytes, cell?.share];
      }),
    ]),
  ];
}
