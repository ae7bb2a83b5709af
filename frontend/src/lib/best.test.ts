import { expect, test } from "vitest";
import type { BestCondition } from "../api/types";
import { bestCsv, bestRows, isEvaluated } from "./best";

type Place = BestCondition["criteria"][number]["places"][number];

const place = (member: number, name: string, value: number, more: Partial<Place> = {}): Place => ({
  member,
  name,
  value,
  low: null,
  high: null,
  behind: null,
  behind_low: null,
  behind_high: null,
  worse: false,
  ...more,
});

const CONDITION: BestCondition = {
  condition: "",
  sentence: "",
  notes: [],
  curves: [{ member: 0, name: "p3", rounds: 3, points: [] }],
  criteria: [
    {
      name: "speed",
      title: "Fastest",
      at: null,
      verdict: "",
      reason: null,
      best: ["ddp"],
      rounds: 3,
      places: [place(1, "ddp", 120), place(0, "p3", 100.04, { worse: true, behind: 1.2 })],
    },
    {
      name: "attained",
      title: "Best accuracy",
      at: null,
      verdict: "",
      reason: null,
      best: ["p3"],
      rounds: 3,
      places: [place(0, "p3", 0.9431, { low: 0.93, high: 0.95 })],
    },
  ],
};

test("members stand in the race's order, each with what it attained by every criterion", () => {
  expect(bestRows(CONDITION, "accuracy")).toEqual([
    {
      member: 0,
      name: "p3",
      attained: [
        { value: "100.0 /s", ends: null, best: false },
        { value: "94.31 %", ends: "93.00 % to 95.00 %", best: false },
      ],
    },
    { member: 1, name: "ddp", attained: [{ value: "120.0 /s", ends: null, best: true }, null] },
  ]);
});

test("a loss is a number", () => {
  expect(bestRows(CONDITION, "loss")[0]?.attained[1]?.value).toBe("0.943");
});

test("without evaluations there is nothing to say", () => {
  expect(isEvaluated(CONDITION)).toBe(false);
});

test("a file has every figure as it was measured", () => {
  const rows = bestCsv(CONDITION);
  expect(rows).toHaveLength(4);
  expect(rows[2]).toEqual(["Fastest", null, "p3", 100.04, null, null, 1.2, null, null, "yes", 3]);
});
