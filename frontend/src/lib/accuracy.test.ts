import { expect, test } from "vitest";
import type { Summary } from "../api/types";
import { accuracyNote } from "./accuracy";

const reached = {
  target_accuracy: 0.95,
  time_to_target_s: 12,
  convergence_speed_up: 1.8,
  speed_up: { baseline_name: "slow" },
} as Summary;

test("the time to the target is told beside the baseline's", () => {
  expect(accuracyNote(reached)).toBe("95.0 % after 12 s, 1.80× as soon as slow");
});

test("where the jobs are not compared, only the time is told", () => {
  expect(accuracyNote({ ...reached, convergence_speed_up: null })).toBe("95.0 % after 12 s");
  expect(accuracyNote({ ...reached, convergence_speed_up: null, speed_up: null })).toBe("95.0 % after 12 s");
});

test("a target that was not reached, and a job without one", () => {
  expect(accuracyNote({ ...reached, time_to_target_s: null, convergence_speed_up: null })).toBe(
    "target 95.0 %",
  );
  expect(accuracyNote({ ...reached, target_accuracy: null })).toBe("last evaluation");
  expect(accuracyNote(undefined)).toBe("last evaluation");
});
