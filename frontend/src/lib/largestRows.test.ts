import { expect, test } from "vitest";
import type { LargestBatchView } from "../api/types";
import { best, largestRows, slowDown, wayName } from "./largestRows";

const way = { global_batch: 0, peak: 0, slow_down: null, limit: "", refused: "", layers: {} };
const view: LargestBatchView = {
  worker: 0,
  largest: {
    memory: 2 ** 34,
    beside: 0,
    rates: "",
    ways: [
      { ...way, way: "keep", samples: 100, global_batch: 200, peak: 7, slow_down: 0, limit: "101 take more" },
      { ...way, way: "swap", samples: 450, global_batch: 900, peak: 8, slow_down: 1.204 },
      { ...way, way: "recompute", samples: 0, refused: "it looks at values" },
    ],
    text: "",
  },
};

test("the largest of all ways is said beside what there is without", () => {
  expect(best(view)).toBe(
    "In 16.0 GiB a pass may have 450 samples with swap, 4.5 times as many as with keep.",
  );
  const kept = (samples: number) => {
    const ways = view.largest.ways.map((each) => (each.way === "keep" ? { ...each, samples } : each));
    return { ...view, largest: { ...view.largest, ways } };
  };
  expect(best(kept(0))).toBe("In 16.0 GiB a pass may have 450 samples with swap.");
  expect(best(kept(30931))).toBe("In 16.0 GiB a pass may have 30,931 samples with keep.");
});

test("what nobody predicts is no number", () => {
  expect(view.largest.ways.map(slowDown)).toEqual(["0 %", "120 %", "–"]);
});

test("a file has a row for each way, with its limit or why it cannot be had", () => {
  expect(largestRows(view)[1]).toEqual(["keep", 100, 200, 7, 0, "101 take more"]);
  expect(largestRows(view)[3]?.at(-1)).toBe("it looks at values");
});

test("a mixture says how many layers are treated how", () => {
  expect(wayName({ ...way, way: "budget", samples: 3, layers: { keep: 1, swap: 20 } })).toBe(
    "budget (1 keep, 20 swap)",
  );
  expect(view.largest.ways.map(wayName)).toEqual(["keep", "swap", "recompute"]);
});
