// From which rate down codecs save time, as rows. No React here.
import type { PayingView } from "../api/types";
import type { Cell } from "./csv";
import { formatRate } from "./format";

type Paying = PayingView["codecs"][number];

/** Where a codec pays, in words. */
export function verdict({ below_bps, why }: Paying): string {
  return typeof below_bps === "number" ? `below ${formatRate(below_bps)}` : why;
}

/** Its name, and whether the job has it. */
export function called({ codec, mine }: Paying): string {
  return mine ? `${codec} (this job's)` : codec;
}

/** The table as rows of a file. */
export function payingRows({ codecs }: PayingView): Cell[][] {
  return [
    [
      "codec",
      "this job's",
      "bytes through the busiest port (B)",
      "core time (s)",
      "pays below (bit/s)",
      "why",
    ],
    ...codecs.map((one) => [
      one.codec,
      one.mine ? "yes" : "",
      one.port_bytes,
      one.seconds,
      one.below_bps,
      one.why,
    ]),
  ];
}
