import { expect, test } from "vitest";
import { formatSpeedUp } from "./format";

test("a speed-up with a caveat is marked, and nothing else is", () => {
  expect(formatSpeedUp(1.5)).toBe("1.50×");
  expect(formatSpeedUp(1.5, null)).toBe("1.50×");
  expect(formatSpeedUp(1.5, "another job ran on the machine during this job")).toBe("1.50×*");
  expect(formatSpeedUp(null, "device: cpu here, cuda in the baseline; they must be equal")).toBe("–");
});
