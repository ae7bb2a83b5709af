import { expect, test } from "vitest";
import type { LinkStretch } from "../api/types";
import { csvOf } from "./csv";
import { stretchRows } from "./stretchRows";

test("bytes, shares and waits have a column each, unrounded, with their units", () => {
  const link = { key: "0:eth0", party_name: "worker 0", interface: "eth0", host: "a", shared: false };
  const stretch = {
    links: [
      { ...link, direction: "send", bytes: 1536, share: 0.3456 },
      { ...link, direction: "receive", bytes: 10, share: null },
    ],
    layers: [
      {
        index: 3,
        layer: "fc1",
        layer_name: "fc1 (Linear)",
        waited_ns: 1234567,
        waits: 2,
        moved: [{ link: 0, bytes: 1500, share: 0.3375 }],
      },
      {
        index: -1,
        layer: "",
        layer_name: "",
        waited_ns: 0,
        waits: 0,
        moved: [{ link: 1, bytes: 10, share: null }],
      },
    ],
  } as unknown as LinkStretch;
  expect(csvOf(stretchRows(stretch)).split("\r\n")).toEqual([
    'layer,waited for (ms),waits,"worker 0 sends, eth0 on a (bytes)","worker 0 sends, eth0 on a (share of the rate)",' +
      '"worker 0 receives, eth0 on a (bytes)","worker 0 receives, eth0 on a (share of the rate)"',
    "all,,,1536,0.3456,10,",
    "fc1,1.234567,2,1500,0.3375,,",
    "of no layer,0,0,,,10,",
    "",
  ]);
});
