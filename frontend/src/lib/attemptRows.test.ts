import { expect, test } from "vitest";
import type { Checkpoints, Job } from "../api/types";
import { attemptRows, checkpointRows, endOf, historyRows, historyWords } from "./attemptRows";

test("an attempt's time is in seconds, not in words", () => {
  const attempt = {
    number: 1,
    id: "a",
    state: "ended",
    started_at: "2026-01-02T03:04:05.250Z",
    ended_at: "2026-01-02T03:06:07Z",
    parties: ["worker 0", "worker 1"],
    devices: ["cpu:0", "cpu:1"],
    message: null,
    reason: "finished",
    exit_code: null,
    resumed_step: 40,
  } as unknown as Job["attempts"][number];
  const [head = [], row = []] = attemptRows([attempt]);
  const of = (name: string) => row[head.indexOf(name)];
  expect(of("took (s)")).toBe(121.75);
  expect(of("started")).toBe("2026-01-02T03:04:05.250Z");
  expect(of("devices")).toBe("cpu:0, cpu:1");
  expect(of("from step")).toBe(40);
  expect(row).toHaveLength(head.length);
});

test("the history is taken along whole, with what the table does not repeat", () => {
  const entry = {
    at: "2026-01-02T03:04:05.250Z",
    attempt: 1,
    from_state: "running",
    to_state: "failed",
    reason: "error",
    message: "worker 0 failed",
  };
  expect(historyRows([entry, { ...entry, attempt: null, reason: null }] as Job["history"])).toEqual([
    ["at", "attempt", "from", "to", "reason", "message"],
    ["2026-01-02T03:04:05.250Z", 1, "running", "failed", "error", "worker 0 failed"],
    ["2026-01-02T03:04:05.250Z", null, "running", "failed", null, "worker 0 failed"],
  ]);
});

test("an exit code is said once", () => {
  const end = {
    message: "worker 0 failed (exit code 1)",
    reason: null,
    exit_code: 1,
  } as Job["attempts"][number];
  expect(endOf(end)).toBe("worker 0 failed (exit code 1)");
  expect(endOf({ ...end, message: "worker 0 was killed", exit_code: 137 })).toBe(
    "worker 0 was killed (exit code 137)",
  );
  expect(endOf({ ...end, message: null })).toBeNull();
});

test("the history does not repeat itself, nor how an attempt ended", () => {
  const entry = (message: string | null) => ({ message, reason: null });
  const said = historyWords({
    attempts: [entry("all went well")],
    history: [
      entry("waits for a device"),
      entry(null),
      entry("cancelled"),
      entry("cancelled"),
      entry("all went well"),
    ],
  } as Pick<Job, "attempts" | "history">);
  expect(said).toEqual(["waits for a device", null, "cancelled", null, null]);
});

test("what can be had of a job's model is what it ended with, then its checkpoints", () => {
  const kept = { end: { step: 9, attempt: 1 }, items: [{ step: 6, written_at: "t", attempt: 1, bytes: 7 }] };
  expect(checkpointRows(kept as unknown as Checkpoints).slice(1)).toEqual([
    [9, "end", null, 1, null],
    [6, "checkpoint", "t", 1, 7],
  ]);
  expect(checkpointRows({ end: null, items: [] })).toHaveLength(1);
});
