import { expect, test } from "vitest";
import { windowAfter, windowBy, windowOf } from "./timeline";

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

test("a key looks closer, further or aside", () => {
  expect(windowBy(drawn, 0.5, 0)).toEqual({ from_ns: 1_025_000_000, to_ns: 1_075_000_000 });
  expect(windowBy(drawn, 2, 0)).toEqual({ from_ns: 950_000_000, to_ns: 1_150_000_000 });
  expect(windowBy(drawn, 1, -0.25)).toEqual({ from_ns: 975_000_000, to_ns: 1_075_000_000 });
});

test("keys never look before the beginning, nor at less than is recorded", () => {
  expect(windowBy({ from_ns: 0, to_ns: 1000 }, 1, -0.25)).toEqual({ from_ns: 0, to_ns: 1000 });
  expect(windowBy({ from_ns: 5000, to_ns: 6000 }, 0.5, 0)).toEqual({ from_ns: 5000, to_ns: 6000 });
  expect(windowBy({}, 2, 0)).toBeUndefined();
  let far = { from_ns: 0, to_ns: 1000 };
  for (let i = 0; i < 100; i++) far = windowBy(windowBy(far, 2, 0) ?? far, 1, 0.25) ?? far;
  expect(Number.isSafeInteger(far.to_ns)).toBe(true);
});

test("a figure that says nothing about time is left alone", () => {
  expect(windowAfter({ from: 0, to: 1 }, {})).toBeUndefined();
});
