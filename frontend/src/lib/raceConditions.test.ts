import { expect, test } from "vitest";
import type { RaceSpec } from "../api/types";
import { raceConditions } from "./raceConditions";

const spec = (network: object, more: object = {}) =>
  ({
    job: { cluster: { workers: 2 }, training: { global_batch: 64, steps: 200 }, network },
    ...more,
  }) as unknown as RaceSpec;

test("a race says under what all of its members run", () => {
  expect(raceConditions(spec({ rate: "12Gbit", hosts: 4 }))).toBe(
    "2 workers, batch 64, 200 steps, 12Gbit in a lab of 4 hosts",
  );
  expect(raceConditions(spec({}, { rates: ["100Mbit", "1Gbit"], workers: [1, 2, 4] }))).toBe(
    "1, 2 or 4 workers, batch 64, 200 steps, 100Mbit or 1Gbit, kept in software",
  );
  expect(raceConditions(spec({}, { workers: [1], batches: [8, 16] }))).toBe(
    "1 worker, batch 8 or 16, 200 steps, no limit of the network",
  );
});
