import { expect, test } from "vitest";
import { differences, settingText } from "./differences";

test("only what differs, by its path", () => {
  const specs = [
    { name: "a", strategy: { name: "p3", options: { slice: 4 } }, training: { lr: 0.1, steps: 5 } },
    { name: "b", strategy: { name: "ddp", options: {} }, training: { lr: 0.1, steps: 9 } },
  ];
  expect(differences(specs)).toEqual([
    { path: "strategy.name", values: ["p3", "ddp"] },
    { path: "strategy.options.slice", values: [4, undefined] },
    { path: "training.steps", values: [5, 9] },
  ]);
});

test("equal lists are equal, and nothing differs from itself", () => {
  expect(differences([{ rates: [1, 2] }, { rates: [1, 2] }])).toEqual([]);
  expect(differences([{ rates: [1, 2] }])).toEqual([]);
});

test("values are readable", () => {
  expect([undefined, null, "p3", 4, [1]].map(settingText)).toEqual(["–", "none", "p3", "4", "[1]"]);
});
