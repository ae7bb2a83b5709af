import { expect, test } from "vitest";
import { joined, MOST_MATCHES, matchesIn, stamped } from "./logLines";

const write = (ms: number) => `${ms}`.padStart(4, "0");

test("a line has the time of the first look that found it", () => {
  const times = { until: [8, 12], unix_ms: [1000, 2000] };
  expect(stamped("one\ntwo\nthree\nfour", 0, times, write)).toBe(
    "1000  one\n      two\n      three\n      four",
  );
  expect(stamped("one\ntwo\nabc\n", 0, times, write)).toBe("1000  one\n      two\n2000  abc\n");
});

test("bytes count, also of what is not shown, and characters may have several", () => {
  const times = { until: [104, 110], unix_ms: [1000, 2000] };
  expect(stamped("µs\n2nd\n", 100, times, write)).toBe("1000  µs\n2000  2nd\n");
});

test("without times there are none", () => {
  expect(stamped("a\nb\n", 0, { until: [], unix_ms: [] }, write)).toBe("      a\n      b\n");
});

test("pieces that overlap are joined once", () => {
  const one = { until: [5, 9], unix_ms: [1, 2] };
  expect(joined(one, { until: [9, 12], unix_ms: [2, 3] })).toEqual({ until: [5, 9, 12], unix_ms: [1, 2, 3] });
  expect(joined(one, { until: [9], unix_ms: [2] })).toBe(one);
});

test("what is looked for is no pattern, and its case does not matter", () => {
  expect(matchesIn("Loss (x)\nloss (x)", "loss (x)")).toEqual([0, 9]);
  expect(matchesIn("anything", "")).toEqual([]);
  expect(matchesIn("a".repeat(5000), "a")).toHaveLength(MOST_MATCHES);
});
