import { expect, test } from "vitest";
import { auditRows, targetOf } from "./audit";

test("an entry is about a thing, or about all of a kind", () => {
  expect(targetOf("jobs/0192")).toEqual({ kind: "jobs", id: "0192" });
  expect(targetOf("session")).toEqual({ kind: "session", id: null });
  expect(targetOf("users/")).toEqual({ kind: "users", id: null });
});

test("a file has what the table has, and the token", () => {
  const entry = {
    id: 7,
    at: "2026-11-28T12:00:00Z",
    who: null,
    token: null,
    action: "cancel_job",
    target: "jobs/1",
    address: "203.0.113.7",
    status: 200,
  };
  const [head, row] = auditRows([entry]);
  expect(head).toHaveLength(7);
  expect(row).toEqual(["2026-11-28T12:00:00Z", null, null, "cancel_job", "jobs/1", "203.0.113.7", 200]);
});
