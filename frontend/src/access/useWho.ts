import { useQuery } from "@tanstack/react-query";
import type { Role } from "../lib/rights";
import { sessionQuery } from "./session";

/** Who uses this page: their name (none where the service asks nobody), and what they may. While the service does not
 * answer, the page is as for a member: it refuses by itself what they may not. */
export function useWho(): { user: string | null; role: Role; asked: boolean } {
  const { data } = useQuery(sessionQuery);
  return { user: data?.user ?? null, role: data?.role ?? "member", asked: data?.access === "token" };
}
