import { expect, test } from "vitest";
import type { JobSummary } from "../api/types";
import { findRaces, MOST_RACERS, namesOf } from "./races";

let clock = 0;
function job(id: string, change: Partial<JobSummary> = {}): JobSummary {
  clock += 1;
  const created_at = new Date(clock * 1000).toISOString();
  return {
    id,
    model: "resnet",
    dataset: "digits",
    state: "queued",
    baseline_id: null,
    started_at: null,
    rate_bps: null,
    hosts: null,
    rehearsed: null,
    slowed: null,
    created_at,
    ...change,
  } as JobSummary;
}

const ids = (groups: { jobs: JobSummary[] }[]) =>
  groups.map((group) => group.jobs.map((member) => member.id));

test("jobs race with their baseline, also over several hands", () => {
  const jobs = [
    job("single"),
    job("ps", { baseline_id: "single" }),
    job("p3", { baseline_id: "ps" }),
    job("other", { model: "vgg" }),
  ];
  expect(ids(findRaces(jobs))).toEqual([["other"], ["single", "ps", "p3"]]);
});

test("jobs without a baseline race with those that train the same", () => {
  expect(ids(findRaces([job("a"), job("b"), job("c", { rate_bps: 1e9 })]))).toEqual([["c"], ["a", "b"]]);
  expect(ids(findRaces([job("a"), job("b", { hosts: 4 })]))).toEqual([["b"], ["a"]]);
  expect(ids(findRaces([job("a"), job("b", { rehearsed: "on a P4000" })]))).toEqual([["b"], ["a"]]);
  expect(findRaces([job("b", { rehearsed: "on a P4000" })])[0]?.label).toBe("resnet on digits, rehearsed");
  expect(ids(findRaces([job("a"), job("b", { slowed: "worker 1" })]))).toEqual([["b"], ["a"]]);
  expect(findRaces([job("b", { slowed: "worker 1" })])[0]?.label).toBe("resnet on digits, slowed");
});

test("two runs of the same demo are two races", () => {
  const jobs = [job("s1"), job("p1", { baseline_id: "s1" }), job("s2"), job("p2", { baseline_id: "s2" })];
  expect(ids(findRaces(jobs))).toEqual([
    ["s2", "p2"],
    ["s1", "p1"],
  ]);
});

test("of more jobs than one race takes, the baseline and the newest race", () => {
  const single = job("single");
  const others = Array.from({ length: MOST_RACERS + 1 }, (_, index) =>
    job(`p${index}`, { baseline_id: "single" }),
  );
  const [raced] = ids(findRaces([single, ...others]));
  expect(raced).toEqual(["single", ...others.slice(2).map(({ id }) => id)]);
  expect(raced).toHaveLength(MOST_RACERS);
});

test("a circle of baselines ends", () => {
  expect(findRaces([job("a", { baseline_id: "b" }), job("b", { baseline_id: "a" })]).length).toBeGreaterThan(
    0,
  );
});

test("groups beside one another are told apart by their first job, and where that is not enough by its time", () => {
  const of = (...names: string[]) => names.map((name) => job(name, { name, baseline_id: null }));
  const group = (label: string, jobs: JobSummary[]) => ({ key: "", label, jobs });
  const [vgg, one, other, twin] = [of("a", "b"), of("mine", "b"), of("night", "b"), of("night", "c")];
  const names = namesOf([
    group("vgg on digits", vgg),
    group("mlp on digits", one),
    group("mlp on digits", other),
    group("mlp on digits", twin),
  ]);
  expect(names.slice(0, 2)).toEqual(["vgg on digits", "mlp on digits, mine"]);
  expect(names[2]).toMatch(/^mlp on digits, night, .*\d/);
  expect(new Set(names).size).toBe(4);
});
