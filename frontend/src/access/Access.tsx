import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Activity, type ReactNode, useEffect, useRef } from "react";
import { whenRefused } from "../api/client";
import { SignIn } from "./SignIn";
import { isAnother, sessionQuery } from "./session";

/**
 * The page, or the form in its place where the service asks for a token. The address stays, so whoever has signed in is
 * where they wanted to go; a page whose session ended is only hidden, with everything that was typed into it. Where
 * another person signs in, be it in another tab, the page begins anew: nothing of what the former one saw stays.
 */
export function Access({ children }: { children: ReactNode }) {
  const queries = useQueryClient();
  const session = useQuery(sessionQuery);
  const entered = useRef(false);
  const person = useRef<string | null>(null);

  useEffect(
    () => whenRefused(() => void queries.refetchQueries(sessionQuery, { cancelRefetch: false })),
    [queries],
  );

  const { user, signed_in } = session.data ?? {};
  const another = signed_in === true && isAnother(person.current, user ?? null);
  useEffect(() => {
    if (another) window.location.reload();
    else if (signed_in) person.current = user ?? null;
  }, [another, signed_in, user]);

  if (session.isPending || another) return null;
  const out = signed_in === false;
  if (!out) entered.current = true;
  return (
    <>
      {out && <SignIn again={entered.current} />}
      {entered.current && <Activity mode={out ? "hidden" : "visible"}>{children}</Activity>}
    </>
  );
}
