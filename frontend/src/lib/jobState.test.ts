import { expect, test } from "vitest";
import type { JobSummary } from "../api/types";
import { progress, secondsLeft, secondsRun } from "./jobState";

function job(change: Partial<JobSummary>): JobSummary {
  return { state: "running", step: 30, steps: 100, iteration_ms: 500, ...change } as JobSummary;
}

test("the time left is that of the steps to come at the present pace", () => {
  expect(secondsLeft(job({}))).toBe(35);
  expect(secondsLeft(job({ step: null }))).toBe(50);
  expect(secondsLeft(job({ step: 101 }))).toBe(0);
});

test("what is not known, or does not run, has no time left", () => {
  expect(secondsLeft(job({ steps: null }))).toBeNull();
  expect(secondsLeft(job({ iteration_ms: null }))).toBeNull();
  expect(secondsLeft(job({ state: "queued" }))).toBeNull();
});

test("progress is the share of the steps that are done", () => {
  expect(progress(job({}))).toBe(0.3);
  expect(progress(job({ step: null }))).toBe(0);
  expect(progress(job({ steps: null }))).toBeNull();
  expect(progress(job({ state: "succeeded" }))).toBe(1);
});

test("a job has run from its start to its end, or until now", () => {
  const start = "2026-01-01T00:00:00Z";
  const now = Date.parse("2026-01-01T00:01:30Z");
  expect(secondsRun({ started_at: null, ended_at: null }, now)).toBeNull();
  expect(secondsRun({ started_at: start, ended_at: null }, now)).toBe(90);
  expect(secondsRun({ started_at: start, ended_at: "2026-01-01T00:00:40Z" }, now)).toBe(40);
  expect(secondsRun({ started_at: start, ended_at: null }, now - 100_000)).toBe(0);
});
