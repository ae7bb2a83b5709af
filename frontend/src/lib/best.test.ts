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
  unsure: false,
  missing: null,
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
        { value: "100.0 /s", ends: null, best: false, unsure: false },
        { value: "94.31 %", ends: "93.00 % to 95.00 %", best: false, unsure: false },
      ],
    },
    {
      member: 1,
      name: "ddp",
      attained: [{ value: "120.0 /s", ends: null, best: true, unsure: false }, null],
    },
  ]);
});

test("who may be behind is not among the best, and the table says that there are too few to tell", () => {
  const unsure = place(1, "ddp", 119, { unsure: true, missing: 2 });
  const worse = place(2, "ring", 80, { worse: true });
  const [speed] = CONDITION.criteria;
  if (!speed) throw new Error("the first criterion is speed");
  const criteria = [{ ...speed, best: ["p3", "ddp"], places: [place(0, "p3", 120), unsure, worse] }];
  const rows = bestRows({ ...CONDITION, criteria }, "accuracy");
  expect(rows.map(({ attained: [one] }) => [one?.best, one?.unsure])).toEqual([
    [true, false],
    [false, true],
    [false, false],
  ]);
  expect(bestCsv({ ...CONDITION, criteria })[2]?.slice(-4)).toEqual(["no", "yes", 2, 3]);
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
  expect(rows[2]).toEqual(["Fastest", null, "p3", 100.04, null, null, 1.2, null, null, "yes", "no", null, 3]);
});
