import { expect, test } from "vitest";
import { raceTakes } from "./raceTakes";

test("a race says how long it takes as far as that is known", () => {
  expect(raceTakes([], 3, 1)).toBeUndefined();
  expect(raceTakes([null, undefined], 3, 1)).toContain("not known yet");
  expect(raceTakes([20, 30], 3, 1)).toBe("Expected to take about 3 min.");
  expect(raceTakes([20, null], 3, 2)).toContain("about 60 s for 3 of 12 jobs");
});
