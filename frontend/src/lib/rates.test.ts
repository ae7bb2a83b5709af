import { expect, test } from "vitest";
import { bpsOf, ratesProblem, typedRates, withRates } from "./rates";

test("rates are read as the service reads them", () => {
  expect(["300Mbit", "10 Gbit/s", "1.5Gbps", "2000bit", "5Kbit"].map(bpsOf)).toEqual([
    3e8, 1e10, 1.5e9, 2e3, 5e3,
  ]);
  const refused = ["fast", "100", "100MB", "-1Gbit", "1e3Mbit", "0.1kbit", "101Tbit", "1,5Gbit", "١Gbit", ""];
  expect(refused.map(bpsOf)).toEqual(refused.map(() => null));
  expect(bpsOf(`${" ".repeat(60)}1Gbit`)).toBeNull();
});

test("every rate is checked, and the rule and the remedy are said", () => {
  expect(ratesProblem(["100Mbit", "1Gbit"])).toBeUndefined();
  expect(ratesProblem(["100Mbit", "fast"])).toBe(
    '"fast" is not a rate from 1 kbit/s to 100 Tbit/s. Write it as 300Mbit or 10Gbit.',
  );
  expect(ratesProblem(["slow", "fast"])).toMatch(/^"slow", "fast" are not rates/);
});

test("several rates are typed with commas", () => {
  expect(typedRates(" 750Mbit, 2 Gbit/s,")).toEqual({ rates: ["750Mbit", "2 Gbit/s"], problem: undefined });
  expect(typedRates("750Mbit 2Gbit").problem).toMatch(/^"750Mbit 2Gbit" is not a rate/);
  expect(typedRates("  ")).toEqual({ rates: [], problem: undefined });
});

test("a rate is there once, however it is written", () => {
  expect(withRates(["100Mbit"], ["0.1Gbit", "1000Mbit", "2Gbit"], ["1Gbit"])).toEqual([
    "100Mbit",
    "1Gbit",
    "2Gbit",
  ]);
});
