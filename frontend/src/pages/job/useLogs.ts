import { useCallback, useEffect, useRef, useState } from "react";
import { ApiProblem, client, unwrap } from "../../api/client";
import { joined, type LogTimes } from "../../lib/logLines";
import { append, KEPT_BYTES, type LogText } from "../../lib/logText";

const TAIL_BYTES = 128 * 1024;
const CHUNK_BYTES = 256 * 1024;
const POLL_MS = 1500;

interface Logs extends LogText {
  party: string | undefined;
  parties: string[];
  /** Whose failure ended the attempt. */
  failed: string | null;
  times: LogTimes;
  error: Error | null;
}

const EMPTY: Logs = {
  party: undefined,
  parties: [],
  failed: null,
  times: { until: [], unix_ms: [] },
  text: "",
  bytes: 0,
  skipped: 0,
  error: null,
};

interface Asked {
  jobId: string;
  /** The attempt's number: each writes logs of its own. */
  attempt: number | undefined;
  party: string | undefined;
  /** Whether more may come. */
  live: boolean;
}

/** The log of one process from its tail on, and what it writes while `live`. It stays when the job ends. */
export function useLogs({
  jobId,
  attempt,
  party,
  live,
}: Asked): Logs & { earlier: (() => void) | undefined } {
  const [logs, setLogs] = useState<Logs>(EMPTY);
  const [tail, setTail] = useState(TAIL_BYTES);
  const running = useRef(live);
  running.current = live;

  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let offset = -tail; // from the end
    setLogs(EMPTY);

    const read = (from: number, limit: number) =>
      unwrap(
        client.GET("/api/v1/jobs/{job_id}/logs", {
          params: { path: { job_id: jobId }, query: { party, attempt, offset: from, limit } },
          signal: abort.signal,
        }),
      );

    const next = async () => {
      let last = !running.current; // Before reading: what came until then is read.
      try {
        const chunk = await read(offset, CHUNK_BYTES);
        const begin = chunk.next_offset - new TextEncoder().encode(chunk.text).length;
        const skipped = offset < 0 ? Math.max(0, begin) : undefined;
        const more = chunk.next_offset < chunk.size && chunk.next_offset > begin;
        offset = chunk.next_offset;
        setLogs((known) => ({
          ...append({ ...known, skipped: skipped ?? known.skipped }, chunk.text),
          party: chunk.party,
          parties: chunk.parties,
          failed: chunk.failed,
          times: joined(known.times, chunk.times),
          error: null,
        }));
        if (more) return void next();
      } catch (error) {
        if (abort.signal.aborted) return;
        setLogs((known) => ({ ...known, error: error as Error }));
        last &&= error instanceof ApiProblem && error.status < 500; // The service is away: it comes back.
      }
      if (!last && !abort.signal.aborted) timer = setTimeout(next, POLL_MS);
    };
    void next();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [jobId, attempt, party, tail]);

  const earlier = useCallback(() => setTail(KEPT_BYTES), []);
  const room = logs.skipped > 0 && tail < KEPT_BYTES && logs.bytes < KEPT_BYTES / 2;
  return { ...logs, earlier: room ? earlier : undefined };
}
