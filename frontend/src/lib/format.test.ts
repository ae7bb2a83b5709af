import { expect, test } from "vitest";
import {
  counted,
  formatAge,
  formatBusy,
  formatBytes,
  formatRate,
  formatSpan,
  formatSpeedUp,
  formatStepTime,
  formatThroughput,
  formatTimesFastest,
  humanize,
  singular,
} from "./format";

test("a speed-up with a caveat is marked, and nothing else is", () => {
  expect(formatSpeedUp(1.5)).toBe("1.50x");
  expect(formatSpeedUp(1.5, null)).toBe("1.50x");
  expect(formatSpeedUp(1.5, "another job ran on the machine during this job")).toBe("1.50x*");
  expect(formatSpeedUp(null, "device: cpu here, cuda in the baseline; they must be equal")).toBe("–");
});

test("an age is in the largest unit that says something", () => {
  expect(formatAge(1_000)).toBe("now");
  expect(formatAge(59_000)).toBe("59 s ago");
  expect(formatAge(47 * 3_600_000)).toBe("47 h ago");
  expect(formatAge(48 * 3_600_000)).toBe("2 d ago");
});

test("a column shows a time in its largest unit", () => {
  expect(formatSpan(null)).toBe("–");
  expect(formatSpan(-3)).toBe("0 s");
  expect(formatSpan(59.9)).toBe("59 s");
  expect(formatSpan(60)).toBe("1 min");
  expect(formatSpan(7_199)).toBe("1 h");
  expect(formatSpan(172_800)).toBe("2 d");
});

// What Python writes for the same numbers: `tests/backend/test_rounding.py`.
test("figures are rounded as the terminal rounds them", () => {
  expect([41.237, 0.125, 0.375, 1.005, 20_604.5, 7].map(formatStepTime)).toEqual([
    "41.24 ms",
    "0.12 ms",
    "0.38 ms",
    "1.00 ms",
    "20604.50 ms",
    "7.00 ms",
  ]);
  expect([1605.26, 0.25, 0.75, 1143].map(formatThroughput)).toEqual(["1605.3", "0.2", "0.8", "1143.0"]);
  expect([1.125, 0.705, 1.3242].map((value) => formatSpeedUp(value))).toEqual(["1.12x", "0.70x", "1.32x"]);
  expect([1, 1.0625, 1.0006].map(formatTimesFastest)).toEqual(["1.000", "1.062", "1.001"]);
  expect([0.125, 0.375, 0.9374, 1].map(formatBusy)).toEqual(["12 %", "38 %", "94 %", "100 %"]);
  expect([0, 1023, 1126.4, 650_035, 243_860_896, 2 ** 50].map(formatBytes)).toEqual([
    "0 B",
    "1023 B",
    "1.1 KiB",
    "634.8 KiB",
    "232.6 MiB",
    "1024.0 TiB",
  ]);
  expect([500, 8e6, 999_600_000, 1.5e9, 123_456_789].map(formatRate)).toEqual([
    "500 bit/s",
    "8 Mbit/s",
    "1 Gbit/s",
    "1.5 Gbit/s",
    "123 Mbit/s",
  ]);
  expect([formatStepTime(null), formatThroughput(undefined), formatTimesFastest(null)]).toEqual([
    "–",
    "–",
    "–",
  ]);
});

test("one of them is one", () => {
  expect([0, 1, 2].map((count) => counted(count, "layer"))).toEqual(["0 layers", "1 layer", "2 layers"]);
  expect(counted(1, "process", "processes")).toBe("1 process");
  expect(counted(3, "process", "processes")).toBe("3 processes");
});

test("one entry of a list is called by the singular of the list's title", () => {
  expect(singular("Host rates")).toBe("Host rate");
  expect(singular("Entries")).toBe("Entry");
  expect(singular("Data")).toBe("Data");
});

test("a name in seconds says so", () => {
  expect(humanize("backoff_s")).toBe("Backoff (s)");
  expect(humanize("every_steps")).toBe("Every steps");
});
