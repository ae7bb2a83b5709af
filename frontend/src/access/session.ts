import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "../api/client";

/** Whom the service answers, and whether that includes this browser. Who cannot ask learns that from everything else. */
export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/session", { signal })),
  retry: false,
});

/** Whether a page that was `former`'s is to begin anew for `now`; null: whoever reaches a server that asks nobody. */
export function isAnother(former: string | null, now: string | null): boolean {
  return former !== null && former !== now;
}
