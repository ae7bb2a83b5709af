import { expect, test } from "vitest";
import type { JobMemory } from "../api/types";
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
test("a layer without a name is the root, and what is no layer's says so", () => {
  const named = (layer: number, name: string): JobMemory => ({
    ...held,
    layers: held.layers.map((row) => ({ ...row, layer, name })),
  });
  expect(heldRows(named(0, ""))[0]?.layer).toBe("(root)");
  expect(heldRows(named(-1, ""))[0]?.layer).toBe("(no layer)");
});

test("what nobody counted is empty in a file, and not nothing", () => {
  const cells = heldCells(heldRows(held));
  expect(cells[1]).toEqual([0, "conv", 4096, 1024, 0, 0.5]);
  expect(cells[2]?.[2]).toBe("");
});
