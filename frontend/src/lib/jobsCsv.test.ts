import { expect, test } from "vitest";
import { csvOf } from "./csv";
import { jobRows } from "./jobsCsv";

test("a job is a row of values, and what is not known stays empty", () => {
  const job = { name: "a, b", id: "7", state: "failed", workers: 2, rate_bps: 20_000_000, loss: null };
  const [head, row] = csvOf(jobRows([job as never])).split("\r\n");
  expect(head?.startsWith("name,id,state,strategy,model,data,workers,global batch,rate (bit/s)")).toBe(true);
  expect(row?.startsWith('"a, b",7,failed,,,,2,,20000000,')).toBe(true);
  expect(row?.split(",").length).toBe((head?.split(",").length ?? 0) + 1); // the name has a comma
});
