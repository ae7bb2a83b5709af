import { expect, test } from "vitest";
import type { MemoryView } from "../api/types";
import { highest, madeOf, memoryRows } from "./memoryRows";

const view: MemoryView = {
  worker: 0,
  memory: {
    samples: 16,
    total: 3 * 2 ** 20,
    peak: {
      total: 2 * 2 ** 20,
      parts: { parameters: 2 ** 19, buffers: 0, activations: 3 * 2 ** 19 },
      saved: { "0": 2 ** 19 },
      when: "again",
      layer: "fc",
      first: 2 * 2 ** 20,
      stage: 0,
    },
    declared: { parameters: 2 ** 19 },
    beside: 2 ** 20,
    checkpoint: 2 ** 18,
    offloaded: 0,
    layers: [{ layer: "0", kind: "Conv2d", activations: "recompute", declared: 1024, saved: 2 ** 19 }],
    text: "",
  },
};

test("the highest moment is said with its layer and the pass's samples", () => {
  expect(highest(view)).toBe("3.0 MiB at the most, in a second forward at fc, with passes of 16 samples");
  const peak = { ...view.memory.peak, when: "backward", layer: null };
  expect(highest({ ...view, memory: { ...view.memory, peak } })).toContain("in backward, with");
  const root = { ...view.memory.peak, layer: "" };
  expect(highest({ ...view, memory: { ...view.memory, peak: root } })).toContain("at (root), with");
  expect(highest({ ...view, memory: { ...view.memory, offloaded: 2 ** 21 } })).toContain(
    "16 samples; 2.0 MiB of the optimizer's state are on a disk",
  );
});

test("what it is made of adds up to the total, the largest first", () => {
  const parts = madeOf(view);
  expect(parts.map(([name]) => name)).toEqual([
    "activations",
    "servers, codecs and averages",
    "parameters",
    "a checkpoint's copy",
  ]);
  expect(parts.reduce((sum, [, bytes]) => sum + bytes, 0)).toBe(view.memory.total);
});

test("a file has a row for each layer", () => {
  expect(memoryRows(view)[1]).toEqual(["0", "Conv2d", "recompute", 1024, 2 ** 19]);
});
