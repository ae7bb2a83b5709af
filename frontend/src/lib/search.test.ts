import { expect, test } from "vitest";
import {
  clearedJobs,
  compareSearch,
  formatQuery,
  groupFilter,
  jobSearch,
  jobsFilter,
  jobsSearch,
  launchSearch,
  NO_GROUP,
  nothingBut,
  parseQuery,
  raceSearch,
  rankingsSearch,
  tabsOf,
} from "./search";

test("a race's address is readable and comes back as it was", () => {
  const view = { jobs: ["a1", "b2"], step: 40 };
  expect(formatQuery(view)).toBe("?jobs=a1,b2&step=40");
  expect(raceSearch(parseQuery("jobs=a1,b2&step=40"))).toEqual(view);
});

test("nothing chosen is an empty address", () => {
  expect(formatQuery({ jobs: undefined, step: undefined, text: "" })).toBe("");
  expect(raceSearch(parseQuery(""))).toEqual({});
});

test("step 0 is a step", () => {
  expect(raceSearch(parseQuery("?step=0"))).toEqual({ step: 0 });
  expect(formatQuery({ step: 0 })).toBe("?step=0");
});

test("what is not understood is left out", () => {
  expect(raceSearch({ jobs: " , ", step: "latest" })).toEqual({});
  expect(jobSearch({ tab: "nonsense", step: "1.5" })).toEqual({});
  expect(jobsSearch({ state: "asleep", text: "p3" })).toEqual({ text: "p3" });
});

test("what is not understood does not come back where the router merges it with what stood there", () => {
  const merged = (check: (raw: Record<string, unknown>) => object, query: string) => {
    const raw = parseQuery(query);
    return formatQuery({ ...raw, ...nothingBut(check)(raw) });
  };
  expect(merged(jobSearch, "tab=nope&step=3&color=red")).toBe("?step=3");
  expect(merged(jobsSearch, "state=asleep&sort=-weight&group=color&text=p3")).toBe("?text=p3");
  expect(merged(raceSearch, "jobs=a,b&step=latest&why=0,1,2,3")).toBe("?jobs=a,b");
  expect(merged(compareSearch, "jobs=a&by=moon&smooth=200")).toBe("?jobs=a");
  expect(merged(rankingsSearch, "zoom=,&again=x")).toBe("");
  expect(merged(launchSearch, "start=moon&from=a&rounds=3")).toBe("?from=a");
});

test("a job is raced once", () => {
  expect(raceSearch({ jobs: "a,b,a" })).toEqual({ jobs: ["a", "b"] });
});

test("several steps need a first one, and an order", () => {
  expect(jobSearch({ step: "5", to_step: "8" })).toEqual({ step: 5, to_step: 8 });
  expect(jobSearch({ step: "5", to_step: "4" })).toEqual({ step: 5 });
  expect(jobSearch({ to_step: "4" })).toEqual({});
});

test("a window of time needs both of its ends, in order", () => {
  expect(jobSearch({ from_ns: "5", to_ns: "9" })).toEqual({ from_ns: 5, to_ns: 9 });
  expect(jobSearch({ from_ns: "5" })).toEqual({});
  expect(jobSearch({ from_ns: "9", to_ns: "5" })).toEqual({});
  const view = { jobs: ["a1", "b2"], step: 4, from_ns: -5, to_ns: 9 };
  expect(raceSearch(parseQuery(formatQuery(view)))).toEqual(view);
  expect(raceSearch({ from_ns: "5" })).toEqual({});
});

test("what is measured, and what is looked for in a log, are kept", () => {
  const view = { tab: "timeline" as const, measure: [-5, 9] as [number, number], find: " bad luck " };
  expect(jobSearch(parseQuery(formatQuery(view)))).toEqual(view);
  expect(jobSearch({ measure: "5" })).toEqual({});
  expect(jobSearch({ measure: "5,x" })).toEqual({});
  expect(jobSearch({ measure: "1,2,3" })).toEqual({});
});

test("the kinds of events that are listed are kept", () => {
  const view = { tab: "events" as const, step: 3, kinds: ["wait", "send"] };
  expect(formatQuery(view)).toBe("?tab=events&step=3&kinds=wait,send");
  expect(jobSearch(parseQuery(formatQuery(view)))).toEqual(view);
  expect(jobSearch({ kinds: "" })).toEqual({});
});

test("a chosen wait is kept, in a race with its job", () => {
  expect(jobSearch(parseQuery(formatQuery({ why: "0,5,3,-1" })))).toEqual({ why: "0,5,3,-1" });
  expect(jobSearch({ why: "0,5" })).toEqual({});
  const view = { why: "0,5,3,12", why_job: "a1" };
  expect(raceSearch(parseQuery(formatQuery(view)))).toEqual(view);
  expect(raceSearch({ why: "0,5,3,12" })).toEqual({});
});

test("a comparison keeps its jobs, its axis and its figure", () => {
  const view = { jobs: ["a1", "b2"], by: "bytes" as const, figure: "heatmap" };
  expect(compareSearch(parseQuery(formatQuery(view)))).toEqual(view);
  expect(compareSearch({ by: "moons" })).toEqual({});
});

test("a form is filled from one thing", () => {
  expect(launchSearch(parseQuery("template=vgg-small"))).toEqual({ template: "vgg-small" });
  expect(launchSearch(parseQuery("from=a1&template=vgg-small"))).toEqual({ from: "a1" });
  expect(launchSearch(parseQuery("from=a1&begin=40"))).toEqual({ from: "a1", begin: 40 });
  expect(launchSearch(parseQuery("start=own&begin=40"))).toEqual({ start: "own" });
  expect(launchSearch(parseQuery("start=own"))).toEqual({ start: "own" });
  const again = {
    again: "r1",
    member: "p3+late-multiply",
    rate: "900Mbit",
    workers: 4,
    batch: 64,
    rounds: 6,
    fidelity: "rehearse" as const,
  };
  expect(launchSearch(parseQuery(formatQuery(again)))).toEqual(again);
  expect(launchSearch(parseQuery("again=r1&fidelity=simulate&start=own"))).toEqual({ again: "r1" });
  expect(launchSearch(parseQuery("start=nonsense&race=true"))).toEqual({ race: true });
  expect(launchSearch(parseQuery("start=own&from=a1&race=true"))).toEqual({ from: "a1", race: true });
});

test("text is escaped", () => {
  const view = { text: "vgg & co, 100%" };
  expect(jobsSearch(parseQuery(formatQuery(view)))).toEqual(view);
});

test("a list keeps its filters, its order and its groups", () => {
  const view = {
    state: "failed" as const,
    tag: "nightly run",
    owner: "ada@example.org",
    raced: false,
    sort: "-samples_per_s",
    group: "model" as const,
    open: "mlp",
    selected: ["a1", "b2"],
  };
  expect(jobsSearch(parseQuery(formatQuery(view)))).toEqual(view);
  expect(jobsFilter(view)).toEqual({
    state: "failed",
    tag: "nightly run",
    owner: "ada@example.org",
    raced: false,
  });
  expect(jobsSearch({ sort: "-moons", group: "colour", tagged: "perhaps" })).toEqual({});
});

test("a comparison and a race keep what their curves show", () => {
  const view = { zoom: ["loss:3:9", "throughput:7.5:8"] };
  expect(compareSearch(parseQuery(formatQuery(view)))).toEqual(view);
  expect(rankingsSearch(parseQuery(formatQuery(view)))).toEqual(view);
});

test("a comparison keeps its smoothing, also none", () => {
  expect(compareSearch(parseQuery(formatQuery({ smooth: 0 })))).toEqual({ smooth: 0 });
  expect(compareSearch({ smooth: "51" })).toEqual({});
  expect(compareSearch({ smooth: "-1" })).toEqual({});
});

test("a group is what its jobs have in common", () => {
  expect(groupFilter("model", "mlp")).toEqual({ model: "mlp" });
  expect(groupFilter("tag", null)).toEqual({ tagged: false });
  expect(groupFilter("race", "r1")).toEqual({ race: "r1" });
  expect(groupFilter("race", null)).toEqual({ raced: false });
  expect(jobsSearch(parseQuery(formatQuery({ open: NO_GROUP })))).toEqual({ open: NO_GROUP });
});

test("only a job whose workers drift has a tab for staleness", () => {
  expect(tabsOf({ drifts: true })).toContain("staleness");
  expect(tabsOf({ drifts: false })).not.toContain("staleness");
  expect(tabsOf({ drifts: false })).toHaveLength(8);
  expect(jobSearch({ tab: "staleness" })).toEqual({ tab: "staleness" });
});

test("Clear keeps what is selected where all jobs are in one list, and no group's", () => {
  expect(clearedJobs({ state: "failed", selected: ["a1"] })).toEqual({ selected: ["a1"] });
  expect(clearedJobs({ group: "model", open: "mlp", selected: ["a1"] })).toEqual({});
});
