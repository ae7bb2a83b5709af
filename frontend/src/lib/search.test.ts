import { expect, test } from "vitest";
import { formatQuery, jobSearch, jobsSearch, parseQuery, raceSearch } from "./search";

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

test("a job is raced once", () => {
  expect(raceSearch({ jobs: "a,b,a" })).toEqual({ jobs: ["a", "b"] });
});

test("a window of time needs both of its ends, in order", () => {
  expect(jobSearch({ from_ns: "5", to_ns: "9" })).toEqual({ from_ns: 5, to_ns: 9 });
  expect(jobSearch({ from_ns: "5" })).toEqual({});
  expect(jobSearch({ from_ns: "9", to_ns: "5" })).toEqual({});
});

test("text is escaped", () => {
  const view = { text: "vgg & co, 100%" };
  expect(jobsSearch(parseQuery(formatQuery(view)))).toEqual(view);
});
