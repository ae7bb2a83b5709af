import { expect, test } from "vitest";
import { spotIn, stacksOf } from "./stack";

const PANEL = {
  link: "0:transport",
  direction: "send",
  title: "worker 0 sends",
  declared: false,
  by_size: false,
};
const area = (name: string, layer: number, y: number[], yaxis: string) => ({
  name,
  stackgroup: yaxis,
  yaxis,
  x0: 1,
  dx: 0.01,
  y: [...y, 0],
  meta: { layers: [layer, layer] },
});
const figure = {
  data: [
    area("conv1", 0, [10, 0, 30], "y"),
    area("fc6", 5, [20, 40, 0], "y"),
    { name: "key", x: [null], y: [null] },
    area("conv1", 0, [7, 7, 7], "y2"),
    area("other", -1, [1, 0, 0], "y2"),
  ],
  layout: {
    meta: {
      panels: [
        { ...PANEL, x: "x", y: "y", rate_bps: 50 },
        { ...PANEL, x: "x2", y: "y2", rate_bps: null },
      ],
    },
  },
};
const [first, second] = stacksOf(figure as never) as [never, never];
const at = (stack: never, x: number, y: number) => {
  const spot = spotIn(stack, x, y);
  return spot && [spot.area?.name, spot.area?.share, spot.bps];
};

test("the layer under a place is the one whose part of the stack it is in", () => {
  expect(at(first, 1.004, 9.9)).toEqual(["conv1", 0.2, 30]);
  expect(at(first, 1.004, 10.1)).toEqual(["fc6", 0.4, 30]);
  expect(at(first, 1.01, 0)).toEqual(["fc6", 0.8, 40]); // a bin begins with its first instant
  expect(at(first, 1.0299, 29)).toEqual(["conv1", 0.6, 30]);
});

test("above the stack nothing is named, and all of it is counted", () => {
  expect(at(first, 1.004, 31)).toEqual([undefined, undefined, 30]);
});

test("where nothing went there is nothing", () => {
  expect(spotIn(first, 0.99, 5)).toBeUndefined();
  expect(spotIn(first, 1.03, 5)).toBeUndefined();
  expect(spotIn(first, 1.004, -1)).toBeUndefined();
});

test("without a rate there is no share", () => {
  expect(at(second, 1.004, 7.5)).toEqual(["other", null, 8]);
  expect(spotIn(second, 1.004, 7.5)?.area?.layers).toEqual([-1, -1]);
});

test("a figure that is not stacked has no panels", () => {
  expect(stacksOf({ data: [], layout: {} } as never)).toEqual([]);
  const lines = { data: [{ y: [1, 2], yaxis: "y" }], layout: { meta: { panels: [{ y: "y", title: "a" }] } } };
  expect(stacksOf(lines as never)).toEqual([]);
});
