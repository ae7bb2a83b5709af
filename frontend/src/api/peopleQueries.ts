import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { PAGED } from "./shared";

// Who may use the service, and who did what.

const AUDIT_PAGE = 50;
const SHOWN_DELIVERIES = 20;
const WAITING_MS = 2_000;

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

/** One's own webhooks, of an admin everybody's. While messages wait, how they fare is asked again. */
export const webhooksQuery = queryOptions({
  queryKey: ["people", "webhooks"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/webhooks", { signal })),
  refetchInterval: ({ state }) => (state.data?.some(({ waiting }) => waiting > 0) ? WAITING_MS : false),
});

/** The newest messages to a webhook. */
export const deliveriesQuery = (webhook: number) =>
  queryOptions({
    queryKey: ["people", "webhooks", webhook],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/webhooks/{webhook_id}/deliveries", {
          params: { path: { webhook_id: webhook }, query: { limit: SHOWN_DELIVERIES } },
          signal,
        }),
      ),
    refetchInterval: ({ state }) =>
      state.data?.items.some((one) => one.state === "waiting") ? WAITING_MS : false,
  });

/** The names of one's own secrets. */
export const secretsQuery = queryOptions({
  queryKey: ["people", "secrets"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/secrets", { signal })),
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
