import { expect, test } from "vitest";
import { ariaSort, isSort, JOB_COLUMNS, nextSort } from "./jobColumns";

test("a column's head sorts by it, then the other way round, then not at all", () => {
  expect(nextSort(undefined, "-speed_up")).toBe("-speed_up");
  expect(nextSort("-speed_up", "-speed_up")).toBe("speed_up");
  expect(nextSort("speed_up", "-speed_up")).toBeUndefined();
  expect(nextSort("-speed_up", "loss")).toBe("loss");
  expect(nextSort("loss", "loss")).toBe("-loss");
  expect(nextSort("-loss", "loss")).toBeUndefined();
});

test("only the column that the list is sorted by says so", () => {
  expect(ariaSort("-loss", "loss")).toBe("descending");
  expect(ariaSort("loss", "loss")).toBe("ascending");
  expect(ariaSort("loss", "-speed_up")).toBeUndefined();
  expect(ariaSort(undefined, "loss")).toBeUndefined();
});

test("every column has an order of its own, and nothing else has one", () => {
  const sorts = JOB_COLUMNS.flatMap(({ sort }) => sort ?? []);
  expect(new Set(sorts).size).toBe(JOB_COLUMNS.length);
  expect(sorts.every(isSort)).toBe(true);
  expect(isSort("--loss")).toBe(false);
  expect(isSort("moons")).toBe(false);
});
