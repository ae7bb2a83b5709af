import { expect, test } from "vitest";
import type { Summary } from "../api/types";
import { baselineName, namesApart, toldApart } from "./apart";

const IDS = [
  "019ac2f3-1b2c-7a00-8000-000000000001",
  "019ac2f3-1b2c-7a00-8000-000000000002",
  "019ac300-0000-7a00-8000-000000000001",
] as const;

// What Python writes for the same jobs: `tests/backend/test_cli_pure.py`.
test("only names that several have are followed by ids", () => {
  const shown = [
    { id: IDS[0], name: "p3" },
    { id: "019b0000-0000-7a00-8000-000000000001", name: "ddp" },
    { id: IDS[2], name: "p3" },
  ];
  const told = toldApart(shown);
  expect(told.map(({ name }) => name)).toEqual(["p3 (019ac2f3-1b2c)", "ddp", "p3 (019ac300-0000)"]);
  expect(told[1]).toBe(shown[1]);
});

test("ids are as long as it takes to tell them apart", () => {
  const shown = [IDS[0], IDS[1]].map((id) => ({ id, name: "p3" }));
  expect([...namesApart(shown).values()]).toEqual([`p3 (${IDS[0]})`, `p3 (${IDS[1]})`]);
});

test("one job that stands twice among them has one name", () => {
  const one = { id: IDS[0], name: "p3" };
  expect(toldApart([one, one])).toEqual([one, one]);
});

test("a baseline of the job's own name has its id with it", () => {
  const over = (id: string | null, name: string) =>
    ({ baseline_id: id, baseline_name: name }) as NonNullable<Summary["speed_up"]>;
  const job = { id: IDS[0], name: "p3" };
  expect(baselineName(job, over(IDS[2], "p3"))).toBe("p3 (019ac300-0000)");
  expect(baselineName(job, over(IDS[2], "ddp"))).toBe("ddp");
  expect(baselineName(job, over(null, "p3"))).toBe("p3");
});
