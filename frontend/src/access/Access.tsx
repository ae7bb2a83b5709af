import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Activity, type ReactNode, useEffect, useRef } from "react";
import { whenRefused } from "../api/client";
import { SignIn } from "./SignIn";
import { sessionQuery } from "./session";

/**
 * The page, or the form in its place where the service asks for a token. The address stays, so whoever has signed in is
 * where they wanted to go; a page whose session ended is only hidden, with everything that was typed into it.
 */
export function Access({ children }: { children: ReactNode }) {
  const queries = useQueryClient();
  const session = useQuery(sessionQuery);
  const entered = useRef(false);

  useEffect(
    () => whenRefused(() => void queries.refetchQueries(sessionQuery, { cancelRefetch: false })),
    [queries],
  );

  if (session.isPending) return null;
  const out = session.data?.signed_in === false;
  if (!out) entered.current = true;
  return (
    <>
      {out && <SignIn again={entered.current} />}
      {entered.current && <Activity mode={out ? "hidden" : "visible"}>{children}</Activity>}
    </>
  );
}
