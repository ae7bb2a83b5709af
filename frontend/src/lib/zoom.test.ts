import { expect, test } from "vitest";
import { withZoom, zoomed, zoomOfKey, zoomsOf } from "./zoom";

test("a zoom is written into the address and comes back", () => {
  const written = withZoom(undefined, "loss", { from: 3.25, to: 9 });
  expect(written).toEqual(["loss:3.25:9"]);
  expect(zoomsOf(written)).toEqual({ loss: [3.25, 9] });
});

test("each figure has one, and none where it shows everything", () => {
  const both = withZoom(["loss:3:9"], "memory", { from: 0, to: 1 / 3 });
  expect(both).toEqual(["loss:3:9", "memory:0:0.333333"]);
  expect(withZoom(both, "loss", { from: 4, to: 5 })).toEqual(["memory:0:0.333333", "loss:4:5"]);
  expect(withZoom(["loss:3:9"], "loss", null)).toBeUndefined();
});

test("what is no zoom is left out", () => {
  expect(zoomsOf(["loss", "loss:9:3", "loss:a:b", ":1:2", "memory:1:2"])).toEqual({ memory: [1, 2] });
});

test("all x axes of a figure show it, and the figure stays as it came", () => {
  const figure = { data: [], layout: { xaxis: { matches: "x2" }, xaxis2: {}, yaxis: {} } };
  const { layout } = zoomed(figure as never, [3, 9]);
  expect(layout.xaxis).toEqual({ matches: "x2", range: [3, 9], autorange: false });
  expect(layout.xaxis2).toEqual({ range: [3, 9], autorange: false });
  expect(layout.yaxis).toEqual({});
  expect(figure.layout.xaxis2).toEqual({});
});

test("keys zoom around the middle, move by a quarter, and show everything again", () => {
  expect(zoomOfKey([10, 30], "+", false)).toEqual([15, 25]);
  expect(zoomOfKey([10, 30], "-", false)).toEqual([0, 40]);
  expect(zoomOfKey([10, 30], "ArrowLeft", true)).toEqual([5, 25]);
  expect(zoomOfKey([10, 30], "ArrowRight", true)).toEqual([15, 35]);
  expect(zoomOfKey([10, 30], "0", false)).toBeNull();
  expect(zoomOfKey([10, 30], "ArrowRight", false)).toBeUndefined();
  expect(zoomOfKey([10, 30], "Enter", false)).toBeUndefined();
});
