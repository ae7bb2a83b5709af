import { expect, test } from "vitest";
import type { Summary } from "../api/types";
import { accuracyNote, accuracyOf } from "./accuracy";

const reached = {
  target_accuracy: 0.95,
  time_to_target_s: 12,
  convergence_speed_up: 1.8,
  speed_up: { baseline_id: "2", baseline_name: "slow" },
} as Summary;
const JOB = { id: "1", name: "fast" };

test("the time to the target is told beside the baseline's", () => {
  expect(accuracyNote(reached, JOB)).toBe("95.0 % after 12 s, 1.80x as soon as slow");
});

test("where the jobs are not compared, only the time is told", () => {
  expect(accuracyNote({ ...reached, convergence_speed_up: null }, JOB)).toBe("95.0 % after 12 s");
  expect(accuracyNote({ ...reached, convergence_speed_up: null, speed_up: null }, JOB)).toBe(
    "95.0 % after 12 s",
  );
});

test("a target that was not reached, and a job without one", () => {
  expect(accuracyNote({ ...reached, time_to_target_s: null, convergence_speed_up: null }, JOB)).toBe(
    "target 95.0 %",
  );
  expect(accuracyNote({ ...reached, target_accuracy: null }, JOB)).toBe("last evaluation");
  expect(accuracyNote(undefined, JOB)).toBe("last evaluation");
});

test("where workers drift, it says of which model it is", () => {
  const of = "worker 0's own model, after its step 9, its units at version 12";
  expect(accuracyNote({ ...reached, target_accuracy: null, accuracy_of: of }, JOB)).toBe(`of ${of}`);
  expect(accuracyOf({ accuracy_of: of })).toBe(`Measured on ${of}`);
  expect(accuracyOf({ accuracy_of: null })).toBeUndefined();
});
