import { expect, test } from "vitest";
import type { StrategyEntry } from "../api/types";
import { recommendedFirst } from "./strategies";

test("recommended strategies come first, otherwise the catalogue's order stays", () => {
  const entry = (name: string, recommended: boolean) => ({ name, recommended }) as StrategyEntry;
  const catalogue = [entry("single", false), entry("p3", true), entry("tree", false), entry("ddp", true)];
  expect(recommendedFirst(catalogue).map(({ name }) => name)).toEqual(["p3", "ddp", "single", "tree"]);
});
