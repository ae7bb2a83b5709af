import { expect, test } from "vitest";
import { MOST_SAVED, readFilters, type SavedFilter, withFilter, withoutFilter } from "./savedFilters";
import { jobsSearch } from "./search";

const FAILED = { name: "failed", search: { state: "failed" as const, sort: "-created_at" } };

test("what was saved comes back as it was", () => {
  expect(readFilters(JSON.stringify([FAILED]), jobsSearch)).toEqual([FAILED]);
});

test("what cannot be read is left out, and what the list does not understand", () => {
  expect(readFilters(null, jobsSearch)).toEqual([]);
  expect(readFilters("{", jobsSearch)).toEqual([]);
  expect(readFilters('{"name": "x"}', jobsSearch)).toEqual([]);
  expect(readFilters('[1, null, {"name": "x"}, {"name": 2, "search": {}}]', jobsSearch)).toEqual([]);
  const odd = '[{"name": "x", "search": {"state": "asleep", "sort": "moons", "text": "p3"}}]';
  expect(readFilters(odd, jobsSearch)).toEqual([{ name: "x", search: { text: "p3" } }]);
});

test("a name is there once, and the newest is last", () => {
  const two = withFilter([FAILED], "mine", { text: "p3" });
  expect(two.map(({ name }) => name)).toEqual(["failed", "mine"]);
  const again = withFilter(two, "failed", { text: "x" });
  expect(again).toEqual([two[1], { name: "failed", search: { text: "x" } }]);
  expect(withoutFilter(again, "failed")).toEqual([two[1]]);
});

test("of too many the oldest goes", () => {
  let filters: SavedFilter[] = [FAILED];
  for (let number = 0; number < MOST_SAVED; number++) filters = withFilter(filters, `${number}`, {});
  expect(filters).toHaveLength(MOST_SAVED);
  expect(filters[0]?.name).toBe("0");
});
