import { expect, test } from "vitest";
import type { Staleness } from "../api/types";
import { formatMean, stalenessRows, stalenessWords } from "./staleness";

function found(contributions: number, ahead: number[], drifts = true): Staleness {
  const everything = { contributions, mean: 1.256, most: 1_234, staleness: [], to: [], counts: [] };
  const workers = ahead.map((lead, worker) => ({ name: `worker ${worker}`, most_ahead: lead }));
  return { drifts, everything, workers } as unknown as Staleness;
}

test("a sentence has the mean, the highest and who is ahead", () => {
  expect(stalenessWords(found(56_789, [0, 3, 1]))).toBe(
    "56,789 contributions, 1.26 updates stale on average, at most 1,234; worker 1 was up to 3 steps ahead of the slowest.",
  );
  expect(stalenessWords(found(2, [1, 0]))).toContain("worker 0 was up to 1 step ahead of the slowest.");
  expect(stalenessWords(found(2, [0, 0]))).toContain("; nobody was ahead.");
});

test("where there is none it says why", () => {
  expect(stalenessWords(found(0, [0]))).toContain("No contribution was applied");
  expect(stalenessWords(found(0, [0], false))).toContain("wait for one another in every step");
  expect(formatMean(null)).toBe("–");
});

test("a file has the mean as it was counted", () => {
  const worker = {
    name: "worker 0",
    steps: 1_200,
    ahead: 0,
    most_ahead: 3,
    contributions: 9,
    mean: 1.256,
    most: 4,
  };
  const [, row] = stalenessRows([worker as unknown as Staleness["workers"][number]]);
  expect(row).toEqual(["worker 0", 1200, 0, 3, 9, 1.256, 4]);
});
