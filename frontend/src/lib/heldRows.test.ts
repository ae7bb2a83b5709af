import { expect, test } from "vitest";
import type { JobMemory, MemoryView } from "../api/types";
import { heldCells, heldRows } from "./heldRows";

const held: JobMemory = {
  rehearsed: null,
  slowed: null,
  measured: [],
  layers: [0, 1].map((worker) => ({
    worker,
    layer: 0,
    name: "conv",
    step: 7,
    saved: worker ? null : 4096,
    left: 1024,
    again: 0,
    again_ms: 0,
    waited_ms: 0.5,
  })),
  revision: 3,
};
const predicted = { worker: 0, memory: { layers: [{ layer: "conv", saved: 4000 }] } } as MemoryView;

test("what is predicted stands beside what worker 0 measured, and nobody else", () => {
  expect(heldRows(held, predicted).map((row) => row.predicted)).toEqual([4000, undefined]);
  expect(heldRows(held, undefined)[0]?.predicted).toBeUndefined();
});

test("what nobody counted is empty in a file, and not nothing", () => {
  const cells = heldCells(heldRows(held, undefined));
  expect(cells[1]).toEqual([0, "conv", 4096, "", 1024, 0, 0.5]);
  expect(cells[2]?.[2]).toBe("");
});
