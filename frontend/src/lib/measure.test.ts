import { expect, test } from "vitest";
import { clickedAt, kept, lengthText, middleOf, movedBy } from "./measure";

test("one begins with the middle third", () => {
  expect(middleOf({ from_ns: 300, to_ns: 600 })).toEqual([400, 500]);
  expect(middleOf({ from_ns: 300 })).toBeUndefined();
});

test("the first click puts both ends where it was, the second the other end", () => {
  expect(clickedAt(5, undefined)).toEqual([5, 5]);
  expect(clickedAt(9, 5)).toEqual([5, 9]);
  expect(clickedAt(2, 5)).toEqual([5, 2]);
});

test("arrow keys move an end by a part of what is shown", () => {
  expect(movedBy("ArrowRight", false, 2)).toBeCloseTo(0.02);
  expect(movedBy("ArrowLeft", true, 2)).toBeCloseTo(-0.002);
  expect(movedBy("Enter", false, 2)).toBeUndefined();
});

test("an end stays within what is shown", () => {
  const view = { from_ns: 100, to_ns: 200 };
  expect([99, 150.4, 201].map((ns) => kept(ns, view))).toEqual([100, 150, 200]);
});

test("a length has the unit that fits", () => {
  expect(lengthText(12_345_678)).toBe("12.346 ms");
  expect(lengthText(-850)).toBe("0.85 µs");
  expect(lengthText(1_250_000_000)).toBe("1.25 s");
  expect(lengthText(0)).toBe("0 µs");
});
