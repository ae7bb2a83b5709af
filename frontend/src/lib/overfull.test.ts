import { expect, test } from "vitest";
import { whyOverfull } from "./overfull";

test("only where a rate was declared and nothing more may the link be faster", () => {
  expect(whyOverfull(false)).not.toContain("faster");
  expect(whyOverfull(true)).toContain("a burst");
  expect(whyOverfull(true)).toContain("the link is faster than the job declared");
});
