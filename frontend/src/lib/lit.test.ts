import { expect, test } from "vitest";
import { layerOfPoint, lightOf } from "./lit";
import { column } from "./typedColumn";

const rows = [
  [0, 0, 5, 3, 12, 0, -1],
  [0, 0, 5, 1, 12, 0, -1],
];
const packed = {
  dtype: "i4",
  bdata: btoa(String.fromCharCode(...new Uint8Array(Int32Array.from(rows.flat()).buffer))),
  shape: "2, 7",
};
const figure = {
  data: [
    { type: "scatter", meta: { layers: [0, 1] }, fillcolor: "#111111" },
    { type: "scatter", meta: { layers: [3, 3] }, fillcolor: "#333333" },
    { type: "scatter", name: "other" },
    { type: "bar", customdata: packed },
    { type: "scatter", meta: { code: 15 }, fillcolor: "#151515" },
    { type: "heatmap", meta: { rows: [0, 1, 2, 4, 5] }, yaxis: "y2" },
  ],
  layout: { meta: { codes: [0, 5, 10, 1] } },
};

test("a layer's traces, bars and rows stand out", () => {
  const light = lightOf(figure, 3);
  expect([...light.fill]).toEqual([
    [0, "#1111112b"],
    [1, "#333333"],
    [4, "#1515152b"],
  ]);
  expect(light.bars.get(3)?.[0]).toBe(1);
  expect(light.bars.get(3)?.[1]).toBeCloseTo(0.15);
  expect(light.frames).toEqual([{ axis: "y2", row: 2 }]);
});

test("without a layer everything is as it was", () => {
  const light = lightOf(figure, undefined);
  expect([...light.fill.values()]).toEqual(["#111111", "#333333", "#151515"]);
  expect(Array.from(light.bars.get(3) ?? [])).toEqual([1, 1]);
  expect(light.frames).toEqual([]);
});

test("what is pointed at says which layer it is of", () => {
  expect(layerOfPoint({ data: { meta: { layers: [2, 2] } } })).toBe(2);
  expect(layerOfPoint({ data: { meta: { layers: [2, 4] } } })).toBeUndefined();
  const heatmap = { meta: { rows: [0, 1, 2, 4, 5] } };
  expect(layerOfPoint({ data: heatmap, pointNumber: [3, 17] })).toBe(4);
  expect(layerOfPoint({ data: heatmap, pointNumber: [2, 17] })).toBeUndefined();
  expect(layerOfPoint({ customdata: Int32Array.from(rows[0] ?? []) })).toBe(3);
  expect(layerOfPoint({ customdata: [0, 0, 5, -1, 0, 0, 0] })).toBeUndefined();
  expect(layerOfPoint(undefined)).toBeUndefined();
});

test("a column is read packed or plain", () => {
  for (const value of [packed, rows, rows.map((row) => Int32Array.from(row))]) {
    const read = column(value);
    expect([read.length, read.at(0, 3), read.at(1, 3)]).toEqual([2, 3, 1]);
  }
  expect(column([5, 7]).at(1)).toBe(7);
});
