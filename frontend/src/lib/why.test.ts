import { expect, test } from "vitest";
import { formatWait, parseWait, waitOfBar } from "./why";

test("a wait's address comes back as it was", () => {
  const wait = { worker: 1, step: 40, layer: 0, unit: -1 };
  expect(parseWait(formatWait(wait))).toEqual(wait);
});

test("what is no wait is none", () => {
  for (const text of [undefined, "", "1,2,3", "1,2,3,x", "1,2,3,4,5"])
    expect(parseWait(text)).toBeUndefined();
});

test("only a wait's bar is a wait", () => {
  const bar = Int32Array.from([1, 0, 5, 3, 12, 2, -1]);
  expect(waitOfBar(bar)).toEqual({ job: 1, wait: { worker: 0, step: 5, layer: 3, unit: 12 } });
  expect(waitOfBar([0, 0, 5, 3, 12, 3, 1])).toBeUndefined();
  expect(waitOfBar(undefined)).toBeUndefined();
});
