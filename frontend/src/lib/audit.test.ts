import { expect, test } from "vitest";
import { auditRows, givenBy, targetOf } from "./audit";

test("an entry is about a thing, or about all of a kind", () => {
  expect(targetOf("jobs/0192")).toEqual({ kind: "jobs", id: "0192" });
  expect(targetOf("session")).toEqual({ kind: "session", id: null });
  expect(targetOf("users/")).toEqual({ kind: "users", id: null });
});

const ENTRY = {
  id: 7,
  at: "2026-11-28T12:00:00Z",
  who: null,
  token: null,
  action: "cancel_job",
  target: "jobs/1",
  address: "203.0.113.7",
  status: 200,
  details: null,
};
const NOTHING = {
  role: null,
  former_role: null,
  user: null,
  name: null,
  scope: null,
  expires_at: null,
  for_job: null,
};

test("a file has what the table has, and the token", () => {
  const [head, row] = auditRows([ENTRY]);
  expect(head).toHaveLength(8);
  expect(row).toEqual(["2026-11-28T12:00:00Z", null, null, "cancel_job", "jobs/1", "", "203.0.113.7", 200]);
});

test("an entry says what was done to a job", () => {
  const said = (details: object) => givenBy({ ...ENTRY, details: { ...NOTHING, ...details } });
  expect(said({ tags: ["a", "b"], former_tags: [], note: "removed" })).toBe(
    "tags a, b, were none; note removed",
  );
  expect(said({ former_baseline: "0192" })).toBe("baseline none, was 0192");
  expect(said({ attempt: 2 })).toBe("attempt 2");
  expect(said({ devices: "all devices of rack4", ends_at: "2026-12-24T10:00:00Z" })).toBe(
    "all devices of rack4, until 2026-12-24 10:00 UTC",
  );
  expect(said({ name: "chat", host: "https://chat.example.org" })).toBe("chat to https://chat.example.org");
});

test("an entry says which role and which token", () => {
  const said = (details: Partial<typeof NOTHING> | object) =>
    givenBy({ ...ENTRY, details: { ...NOTHING, ...details } });
  expect(said({ role: "member" })).toBe("member");
  expect(said({ for_job: "0192" })).toBe("for jobs/0192");
  expect(said({ role: "viewer", former_role: "member" })).toBe("viewer, was member");
  const token = { user: "ada", name: "laptop", scope: "viewer" };
  expect(said(token)).toBe("laptop of ada, viewer, never expires");
  expect(said({ ...token, expires_at: "2026-12-24T12:00:00Z" })).toBe(
    "laptop of ada, viewer, until 2026-12-24",
  );
});
