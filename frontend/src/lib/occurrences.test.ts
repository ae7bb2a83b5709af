import { expect, test } from "vitest";
import { around, nextAfter, occurrencesIn } from "./occurrences";

const event = (start: number, end: number) => ({ start, end, kind: "send", party: "worker 0" });

test("columns are events", () => {
  const columns = {
    start_ns: [5],
    end_ns: [9],
    kind: ["swap_in"],
    worker: [1],
    parties: ["worker 0", "worker 1"],
  };
  expect(occurrencesIn(columns as never)).toEqual([{ start: 5, end: 9, kind: "swap in", party: "worker 1" }]);
});

test("what is jumped to is in the middle, in a view as long as before", () => {
  const view = around(event(50_000, 70_000), { from_ns: 0, to_ns: 100_000 });
  expect(view).toEqual({ from_ns: 10_000, to_ns: 110_000 });
});

test("a long event fits, and a short one can be seen", () => {
  expect(around(event(0, 80_000), { from_ns: 0, to_ns: 100_000 })).toEqual({
    from_ns: -40_000,
    to_ns: 120_000,
  });
  const { from_ns, to_ns } = around(event(5_000, 7_000), { from_ns: 0, to_ns: 10_000_000 });
  expect(to_ns - from_ns).toBe(100_000);
});

test("after the last one comes the first", () => {
  const found = [event(0, 1), event(2, 3)];
  expect([nextAfter(found, undefined, 1), nextAfter(found, 0, 1), nextAfter(found, 1, 1)]).toEqual([0, 1, 0]);
  expect([nextAfter(found, undefined, -1), nextAfter(found, 0, -1), nextAfter([], 0, 1)]).toEqual([1, 1, -1]);
});
