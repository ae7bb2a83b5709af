import { expect, test } from "vitest";
import type { LinkStretch } from "../api/types";
import { csvOf } from "./csv";
import { stretchRows, waitedWords } from "./stretchRows";

test("bytes, shares and waits have a column each, unrounded, with their units", () => {
  const link = { key: "0:eth0", party_name: "worker 0", interface: "eth0", host: "a", shared: false };
  const stretch = {
    waits: 2,
    waited_ns: 1234567,
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
    "all,1.234567,2,1536,0.3456,10,",
    "fc1,1.234567,2,1500,0.3375,,",
    "belongs to no layer,0,0,,,10,",
    "",
  ]);
});

test("time that was waited says in how many waits", () => {
  expect(waitedWords({ waits: 7, waited_ns: 129e6 })).toBe("129 ms in 7 waits");
  expect(waitedWords({ waits: 1, waited_ns: 129e6 })).toBe("129 ms in 1 wait");
  expect(waitedWords({ waits: 0, waited_ns: 0 })).toBe("");
});
