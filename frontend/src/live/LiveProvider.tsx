import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useState, useSyncExternalStore } from "react";
import { sessionQuery } from "../access/session";
import { LiveConnection, type LiveState } from "./connection";

const Live = createContext<LiveConnection | null>(null);

/** Opens the page's event stream. Once, around everything. */
export function LiveProvider({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  // Everything here was asked for after the session was, so nothing that came before its newest notice is missing.
  const [connection] = useState(
    () => new LiveConnection(client, client.getQueryData(sessionQuery.queryKey)?.newest_notice),
  );
  useEffect(() => {
    connection.start();
    return () => connection.stop();
  }, [connection]);
  return <Live value={connection}>{children}</Live>;
}

/** The stream's state and the age of its data. */
export function useLive(): LiveState {
  const connection = useContext(Live);
  if (connection === null) throw new Error("useLive needs a LiveProvider around it");
  return useSyncExternalStore(connection.subscribe, connection.snapshot);
}
