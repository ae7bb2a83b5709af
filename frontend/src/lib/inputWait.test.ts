import { expect, test } from "vitest";
import type { Summary } from "../api/types";
import { inputNote, inputShares } from "./inputWait";

const waits = (...shares: (number | null)[]) =>
  ({ inputs: shares.map((share, worker) => ({ worker, ms: 3, share })) }) as Summary;

test("a wait for data is said with the worker that waits longest", () => {
  expect(inputNote(waits(0.1, 0.341, null))).toBe("34.1 % of worker 1's iteration");
  expect(inputNote(waits(0.341))).toBe("34.1 % of its iteration");
  expect(inputNote(waits(0, 0))).toBe("0.0 % of worker 0's iteration");
  expect(inputNote(waits(null))).toBe("per iteration");
  expect(inputNote(waits())).toBe("per iteration");
  expect(inputNote(undefined)).toBe("per iteration");
});

test("every worker's share is said where there are several", () => {
  expect(inputShares(waits(0.1, null))).toBe("Worker 0: 10.0 %, Worker 1: –");
  expect(inputShares(waits(0.1))).toBeUndefined();
  expect(inputShares(undefined)).toBeUndefined();
});
