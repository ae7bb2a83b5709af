import { expect, test } from "vitest";
import { csvOf } from "./csv";
import { jobRows } from "./jobsCsv";

test("a job is a row of values, and what is not known stays empty", () => {
  const job = {
    name: "a, b",
    id: "7",
    state: "failed",
    workers: 2,
    rate_bps: 20_000_000,
    loss: null,
    tags: [],
  };
  const [head, row] = csvOf(jobRows([job as never], 0)).split("\r\n");
  expect(head?.startsWith("name,id,state,strategy,model,data,workers,global batch,rate (bit/s)")).toBe(true);
  expect(row?.startsWith('"a, b",7,failed,,,,2,,20000000,')).toBe(true);
  expect(row?.split(",").length).toBe((head?.split(",").length ?? 0) + 1); // the name has a comma
});

test("how long it took, and what people wrote about it, go along", () => {
  const job = {
    started_at: "2026-01-01T00:00:00Z",
    ended_at: "2026-01-01T00:00:02.500Z",
    tags: ["a", "b"],
    note: "why",
  };
  const running = { ...job, ended_at: null, tags: [], note: null };
  const [head, ended, runs] = jobRows([job as never, running as never], Date.parse("2026-01-01T00:01:00Z"));
  expect(head?.slice(-3)).toEqual(["took (s)", "tags", "note"]);
  expect(ended?.slice(-3)).toEqual([2.5, "a, b", "why"]);
  expect(runs?.slice(-3)).toEqual([60, "", null]);
});
