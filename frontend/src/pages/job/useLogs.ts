import { useCallback, useEffect, useState } from "react";
import { client, unwrap } from "../../api/client";

const TAIL_BYTES = 128 * 1024;
const CHUNK_BYTES = 256 * 1024;
const POLL_MS = 1500;

interface Logs {
  party: string | undefined;
  parties: string[];
  text: string;
  /** Bytes before the first one shown. */
  skipped: number;
  error: Error | null;
}

const EMPTY: Logs = { party: undefined, parties: [], text: "", skipped: 0, error: null };

/** The log of one process from its tail on, and what it writes while `live`. */
export function useLogs(
  jobId: string,
  party: string | undefined,
  live: boolean,
): Logs & { fromStart: () => void } {
  const [logs, setLogs] = useState<Logs>(EMPTY);
  const [whole, setWhole] = useState(false);

  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let offset = whole ? 0 : -TAIL_BYTES; // negative: from the end
    setLogs(EMPTY);

    const read = (from: number, limit: number) =>
      unwrap(
        client.GET("/api/v1/jobs/{job_id}/logs", {
          params: { path: { job_id: jobId }, query: { party, offset: from, limit } },
          signal: abort.signal,
        }),
      );

    const next = async () => {
      try {
        const chunk = await read(offset, CHUNK_BYTES);
        const begin = chunk.next_offset - new TextEncoder().encode(chunk.text).length;
        if (offset < 0) setLogs((known) => ({ ...known, skipped: Math.max(0, begin) }));
        const more = chunk.next_offset < chunk.size && chunk.next_offset > begin;
        offset = chunk.next_offset;
        setLogs((known) => ({
          ...known,
          party: chunk.party,
          parties: chunk.parties,
          text: known.text + chunk.text,
          error: null,
        }));
        if (more) return void next();
      } catch (error) {
        if (abort.signal.aborted) return;
        setLogs((known) => ({ ...known, error: error as Error }));
      }
      if (live && !abort.signal.aborted) timer = setTimeout(next, POLL_MS);
    };
    void next();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [jobId, party, live, whole]);

  return { ...logs, fromStart: useCallback(() => setWhole(true), []) };
}
