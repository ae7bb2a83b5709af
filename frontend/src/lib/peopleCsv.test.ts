import { expect, test } from "vitest";
import { tokenRows, userRows } from "./peopleCsv";

const TOKEN = {
  id: 7,
  user: "ada",
  name: "laptop",
  scope: "member" as const,
  environment: false,
  created_at: "2026-11-28T12:00:00Z",
  expires_at: null,
  last_used_at: "2026-11-28T13:00:00Z",
};

test("a file of users counts their tokens", () => {
  const user = {
    name: "ada",
    role: "member" as const,
    created_at: "2026-11-27T12:00:00Z",
    removed_at: null,
    tokens: [TOKEN],
  };
  expect(userRows([user])).toEqual([
    ["name", "role", "tokens", "let in"],
    ["ada", "member", 1, "2026-11-27T12:00:00Z"],
  ]);
});

test("a file of tokens has their numbers, by which commands revoke them", () => {
  const [head, row] = tokenRows([TOKEN]);
  expect(head).toHaveLength(7);
  expect(row).toEqual([7, "laptop", "ada", "member", TOKEN.created_at, TOKEN.last_used_at, null]);
});
