import { expect, test } from "vitest";
import type { RaceSummary } from "../api/types";
import { raceState } from "./raceState";

const race = (state: RaceSummary["state"], jobs_ended: number, jobs_failed: number) =>
  raceState({ state, jobs_ended, jobs_failed } as RaceSummary);

test("a race is green only where no job of it failed", () => {
  expect(race("finished", 6, 0)).toEqual({ text: "finished", color: "teal" });
  expect(race("finished", 6, 1)).toEqual({ text: "finished, 1 failed", color: "orange" });
  expect(race("failed", 2, 2)).toEqual({ text: "all failed", color: "red" });
  expect(race("running", 2, 2)).toEqual({ text: "running", color: "blue" });
});

test("a race that waits does not say that it runs", () => {
  const waiting = { state: "running", waits: "for another race" } as RaceSummary;
  expect(raceState(waiting)).toEqual({ text: "waiting", color: "gray" });
});
