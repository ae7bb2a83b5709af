import type { Token, User } from "../api/types";
import type { Cell } from "./csv";

/** Users as rows of a file. */
export function userRows(users: User[]): Cell[][] {
  return [
    ["name", "role", "tokens", "let in"],
    ...users.map(({ name, role, tokens, created_at }) => [name, role, tokens.length, created_at]),
  ];
}

/** Tokens as rows of a file, but for what they are. */
export function tokenRows(tokens: Token[]): Cell[][] {
  return [
    ["number", "for", "whose", "may at most", "made", "last used", "expires"],
    ...tokens.map(({ id, name, user, scope, created_at, last_used_at, expires_at }) => [
      id,
      name,
      user,
      scope,
      created_at,
      last_used_at,
      expires_at,
    ]),
  ];
}
