import { expect, test } from "vitest";
import { mergeIntoRows, mergeNotice, type Notice, parseNotice } from "./notices";

const row = {
  id: "a",
  revision: 3,
  state: "running" as const,
  step: 10,
  steps: 100,
  loss: 0.5,
  samples_per_s: 80,
  name: "x",
};
const notice: Notice = {
  job_id: "a",
  revision: 4,
  state: "running",
  step: 12,
  steps: 100,
  loss: 0.4,
  samples_per_s: 81,
  rehearsed: null,
  slowed: null,
};

test("a newer notice updates its row and nothing else of it", () => {
  expect(mergeNotice(row, notice)).toEqual({ ...row, revision: 4, step: 12, loss: 0.4, samples_per_s: 81 });
});

test("a notice that is not newer changes nothing: an answer may have overtaken it", () => {
  expect(mergeNotice(row, { ...notice, revision: 3 })).toBe(row);
  expect(mergeNotice(row, { ...notice, revision: 1 })).toBe(row);
});

test("a notice about another job changes nothing", () => {
  expect(mergeNotice(row, { ...notice, job_id: "b" })).toBe(row);
});

test("what a notice leaves out stays", () => {
  const merged = mergeNotice(row, { ...notice, state: "succeeded", loss: null, step: null });
  expect(merged).toMatchObject({ state: "succeeded", loss: 0.5, step: 10, revision: 4 });
});

test("rows keep their identity where nothing changed, so that nothing is drawn again", () => {
  const rows = [row, { ...row, id: "b" }];
  expect(mergeIntoRows(rows, { ...notice, job_id: "c" })).toBe(rows);
  const merged = mergeIntoRows(rows, notice);
  expect(merged[0]?.step).toBe(12);
  expect(merged[1]).toBe(rows[1]);
});

test("only notices that name a job are notices", () => {
  expect(parseNotice(JSON.stringify(notice))).toEqual(notice);
  expect(parseNotice("{}")).toBeNull();
  expect(parseNotice("null")).toBeNull();
});
