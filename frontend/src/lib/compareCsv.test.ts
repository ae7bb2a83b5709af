import { expect, test } from "vitest";
import type { Job, Summary } from "../api/types";
import { compareCsv, sideBySideCsv } from "./compareCsv";

test("a job is a row, unrounded; a speed-up stands where the first job is the baseline", () => {
  const jobs = [
    { name: "first", workers: 2 },
    { name: "second", workers: 4 },
  ] as Job[];
  const speed_up = {
    value: 1.23456,
    low: 1.1,
    high: 1.4,
    certainty: "certain",
    kind: "strong",
    why_not: "another job ran",
  };
  const worker = { compute_worker: 1, exposed_worker: 0 };
  const found = { iteration_ms: 41.23456, ...worker, processors: null, speed_up, convergence_speed_up: 2 };
  const [head = [], ...rows] = compareCsv(jobs, [found, found] as Summary[]);
  const cell = (row: number, name: string) => rows[row]?.[head.indexOf(name)];
  expect([cell(0, "name"), cell(1, "workers"), cell(0, "iteration (ms)")]).toEqual(["first", 4, 41.23456]);
  expect([cell(0, "computing, of worker"), cell(0, "exposed, of worker")]).toEqual([1, 0]);
  expect([cell(0, "speed-up"), cell(0, "convergence speed-up"), cell(0, "speed-up caveat")]).toEqual([
    null,
    null,
    null,
  ]);
  expect([cell(1, "speed-up"), cell(1, "speed-up, high end of 95 %")]).toEqual([1.23456, 1.4]);
  expect(cell(1, "speed-up caveat")).toBe("another job ran");
});

test("side by side every job stands beside its own baseline, unrounded", () => {
  const speed_up = { value: 1.23456, baseline_name: "slow" };
  const found = { iteration_ms: 41.23456, processors: null, speed_up } as Summary;
  const [head = [], row = []] = sideBySideCsv([{ name: "first" }] as Job[], [found]);
  const of = (name: string) => row[head.indexOf(name)];
  expect([of("iteration (ms)"), of("baseline"), of("speed-up")]).toEqual([41.23456, "slow", 1.23456]);
});

test("what is still on its way is empty", () => {
  const [head, row] = compareCsv([{ name: "first" }] as Job[], [undefined]);
  expect(row).toHaveLength(head?.length ?? 0);
});
