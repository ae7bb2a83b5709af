import { expect, test } from "vitest";
import type { Why } from "../api/types";
import { csvOf } from "./csv";
import { whyRows } from "./whyRows";

test("a wait is taken along with every stretch, in ms since it began", () => {
  const ahead = [
    { layer_name: "fc1 (Linear)", ns: 250_000 },
    { layer_name: "", ns: 500 },
  ];
  const why = {
    start_ns: 1_000_000,
    stretches: [
      { cause: "queue", party: "worker 1", peer: null, from_ns: 1_000_000, to_ns: 1_250_500, ahead },
      { cause: "wire", party: "worker 1", peer: "worker 0", from_ns: 1_250_500, to_ns: 1_250_501, ahead: [] },
    ],
  } as unknown as Why;
  expect(csvOf(whyRows(why)).split("\r\n")).toEqual([
    "what happened,where,to,after (ms),for (ms),layers ahead",
    'Queued,worker 1,,0,0.2505,"fc1 (Linear) (0.25 ms); control (0.0005 ms)"',
    "On the wire,worker 1,worker 0,0.2505,0.000001,",
    "",
  ]);
});
