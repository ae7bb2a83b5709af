import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { PAGED } from "./shared";

// Who may use the service, and who did what.

const AUDIT_PAGE = 50;

/** One's own tokens. */
export const tokensQuery = queryOptions({
  queryKey: ["people", "tokens"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/tokens", { signal })),
});

/** Everybody, with their tokens: for admins. */
export const usersQuery = queryOptions({
  queryKey: ["people", "users"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/users", { signal })),
});

/** Everybody, and those who were removed, whom the audit log names: for admins. */
export const everyUserQuery = queryOptions({
  queryKey: ["people", "users", "removed"],
  queryFn: ({ signal }) =>
    unwrap(client.GET("/api/v1/users", { params: { query: { removed: true } }, signal })),
});

/** Who did what, newest first: for admins. `who`: one user's. */
export const auditQuery = (who: string | null) =>
  infiniteQueryOptions({
    queryKey: ["people", "audit", who],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/audit", {
          params: { query: { limit: AUDIT_PAGE, cursor: pageParam, who: who ?? undefined } },
          signal,
        }),
      ),
    ...PAGED,
  });
