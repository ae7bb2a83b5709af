import { expect, test } from "vitest";
import { windowAfter, windowOf } from "./timeline";

const drawn = {
  origin_ns: 1_000_000_000,
  from_ns: 1_000_000_000,
  to_ns: 1_100_000_000,
  covered_ns: [900_000_000, 1_200_000_000] as [number, number],
  step: 7,
};

test("panning within what the answer covers asks nothing", () => {
  expect(windowAfter({ from: 0.05, to: 0.15 }, drawn)).toBeUndefined();
});

test("panning beyond it asks for that window, counted from the same step", () => {
  expect(windowAfter({ from: 0.15, to: 0.25 }, drawn)).toEqual({
    step: 7,
    from_ns: 1_150_000_000,
    to_ns: 1_250_000_000,
  });
});

test("zooming in asks for the detail that fits now", () => {
  expect(windowAfter({ from: 0, to: 0.02 }, drawn)).toEqual({
    step: 7,
    from_ns: 1_000_000_000,
    to_ns: 1_020_000_000,
  });
});

test("a reset shows the step again", () => {
  expect(windowAfter(null, drawn)).toEqual({ step: 7 });
});

test("a brush is a stretch of the attempt's clock", () => {
  expect(windowOf({ from: 0.01, to: 0.02 }, drawn)).toEqual({ from_ns: 1_010_000_000, to_ns: 1_020_000_000 });
  expect(windowOf({ from: 0.02, to: 0.02 }, drawn)).toBeUndefined();
});

test("a figure that says nothing about time is left alone", () => {
  expect(windowAfter({ from: 0, to: 1 }, {})).toBeUndefined();
});
