import { expect, test } from "vitest";
import { joined, onScale, scaleOf } from "./scale";

const packed = (...numbers: number[]) => ({
  dtype: "f8",
  bdata: btoa(String.fromCharCode(...new Uint8Array(Float64Array.from(numbers).buffer))),
});
const lines = (...y: number[]) => ({
  data: [
    { type: "scatter", x: packed(0, 1, 2), y: packed(...y) },
    { type: "scatter", x: [0, 2], y: [5, Number.NaN], xaxis: "x2", yaxis: "y2" },
  ],
  layout: { yaxis: { rangemode: "tozero" }, yaxis2: { range: [0, 8] }, xaxis: {}, xaxis2: {} },
});
const bars = (compute: number, exposed: number) => ({
  data: [
    { type: "bar", orientation: "h", x: packed(compute, 2), y: ["worker 0", "worker 1"] },
    { type: "bar", orientation: "h", x: packed(exposed, 1), y: ["worker 0", "worker 1"] },
  ],
  layout: { barmode: "stack", yaxis: { autorange: "reversed" } },
});

test("axes reach as far as their lines, or as the figure says", () => {
  const scale = scaleOf(lines(3, 10, 4));
  expect(scale.xaxis).toEqual([0, 2]);
  expect(scale.yaxis).toEqual([0, 10.5]);
  expect(scale.yaxis2).toEqual([0, 8]);
  expect(scale.xaxis2).toEqual([0, 2]);
});

test("stacked bars reach as far as their sum, and names are no scale", () => {
  const scale = scaleOf(bars(4, 6));
  expect(scale.xaxis?.[0]).toBe(0);
  expect(scale.xaxis?.[1]).toBeCloseTo(10.5);
  expect(scale.yaxis).toBeUndefined();
  expect(scaleOf({ ...bars(4, 6), layout: {} }).xaxis?.[1]).toBeCloseTo(6.3);
});

test("rows of a timeline, and what has nothing to show, are left as they are", () => {
  const rows = { data: [{ type: "scatter", x: [0, 1], y: [0, 3] }], layout: { yaxis: { range: [3, 0] } } };
  expect(scaleOf(rows)).toEqual({ xaxis: [0, 1] });
  expect(scaleOf({ data: [], layout: { xaxis: { visible: false } } })).toEqual({});
});

test("figures beside one another have one scale", () => {
  const both = [lines(3, 10, 4), lines(1, 2, 40)];
  const scale = joined(both.map(scaleOf));
  const shown = both.map((figure) => onScale(figure, scale).layout);
  expect(shown.map((layout) => layout.yaxis)).toEqual(
    [0, 1].map(() => ({ rangemode: "tozero", range: [0, 42], autorange: false })),
  );
  expect(both[0]?.layout.yaxis).toEqual({ rangemode: "tozero" });
});

test("stretches of time keep their beginning, and are equally long", () => {
  const timeline = (from: number, to: number) => ({
    data: [{ type: "bar", base: [0], x: [1], y: [1], orientation: "h" }],
    layout: { xaxis: { range: [from, to] }, yaxis: { range: [3, 0] } },
  });
  const both = [timeline(0, 2), timeline(10, 15)];
  const scale = joined(both.map(scaleOf));
  expect(both.map((figure) => onScale(figure, scale).layout)).toMatchObject([
    { xaxis: { range: [0, 5] }, yaxis: { range: [3, 0] } },
    { xaxis: { range: [10, 15] } },
  ]);
});

test("axes that go together reach as far as what is on any of them", () => {
  const figure = {
    data: [
      { type: "scatter", x: [0, 4], y: [1, 2] },
      { type: "scatter", x: [1, 9], y: [1, 2], xaxis: "x2", yaxis: "y2" },
    ],
    layout: { xaxis: { matches: "x2" }, xaxis2: {} },
  };
  const scale = scaleOf(figure);
  expect(scale.xaxis2).toEqual([0, 9]);
  expect(scale.xaxis).toBeUndefined();
  const { layout } = onScale(figure, { ...scale, xaxis2: [0, 20] });
  expect([layout.xaxis, layout.xaxis2]).toMatchObject([{ range: [0, 20] }, { range: [0, 20] }]);
});

test("what is piled up reaches as far as all of it", () => {
  const layer = (...y: number[]) => ({ type: "scatter", stackgroup: "one", x: [0, 1], y });
  const pile = { data: [layer(1, 2), layer(3, 4)], layout: { yaxis: { rangemode: "tozero" } } };
  expect(scaleOf(pile).yaxis?.[1]).toBeCloseTo(6.3);
});

test("heat maps beside one another have the same colours", () => {
  const map = (zmax: number) => ({ data: [{ type: "heatmap", z: [[1]], zmin: 0, zmax }], layout: {} });
  const scale = joined([scaleOf(map(2)), scaleOf(map(7))]);
  expect(onScale(map(2), scale).data[0]).toMatchObject({ zmin: 0, zmax: 7 });
});

test("the cells of heat maps beside one another have the same colours", () => {
  const colours = ["white", "grey", "black"];
  const cells = colours.map((fillcolor, level) => ({
    type: "scatter",
    fill: "toself",
    fillcolor,
    meta: { level },
  }));
  const map = (zmax: number) => [{ type: "heatmap", z: [[1]], zmin: 0, zmax }, ...cells];
  const figure = (...most: number[]) => ({ data: most.flatMap(map), layout: {} });
  const scale = joined([scaleOf(figure(2, 9)), scaleOf(figure(4, 8))]);
  const shown = (one: ReturnType<typeof figure>) =>
    onScale(one, scale).data.flatMap((trace) => (trace as { fillcolor?: string }).fillcolor ?? []);
  expect(shown(figure(2, 9))).toEqual(["white", "grey", "grey", "white", "grey", "black"]);
  expect(shown(figure(4, 9))).toEqual([...colours, ...colours]);
});
