import { expect, test } from "vitest";
import { typedStep } from "./steps";

test("a step is kept within the job's steps", () => {
  expect(typedStep("7", 2, 99)).toBe(7);
  expect(typedStep(" 12 ", 2, 99)).toBe(12);
  expect(typedStep("0", 2, 99)).toBe(2);
  expect(typedStep("99999999999999999999", 2, 99)).toBe(99);
});

test("what is no number is no step", () => {
  for (const text of ["", " ", "-3", "1e3", "1.5", "last"]) expect(typedStep(text, 0, 99)).toBeUndefined();
});
