import { expect, test } from "vitest";
import { arrival } from "./arrival";

test("telemetry arrives while an attempt lives; what never sealed does not arrive for ever", () => {
  expect(arrival({ sealed: false, state: "running", reason: null })).toBe("still arriving");
  expect(arrival({ sealed: false, state: "stopping_failed", reason: "process-failed" })).toBe(
    "still arriving",
  );
  expect(arrival({ sealed: true, state: "failed", reason: "process-failed" })).toBe("all of it arrived");
  for (const reason of ["directory-lost", "supervisor-lost", "cancelled"]) {
    expect(arrival({ sealed: false, state: "failed", reason })).toBe("not all of it arrived");
  }
  for (const reason of ["launch-failed", "launch-interrupted"]) {
    expect(arrival({ sealed: false, state: "failed", reason })).toBe("nothing was recorded");
  }
});
