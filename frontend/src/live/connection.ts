import type { QueryClient } from "@tanstack/react-query";
import type { Job, JobSummary } from "../api/types";
import { mergeIntoRows, mergeNotice, type Notice, parseNotice } from "./notices";
import { Refresher } from "./refresher";

export type ConnectionState = "connecting" | "live" | "lost";

export interface LiveState {
  connection: ConnectionState;
  /** When the last notice arrived, in ms since the epoch. */
  lastNoticeAt: number | null;
}

// Twice a second is what figures may cost at most; the jobs that train share these cores, so half of it.
const REFRESH_MS = 1000;
const RETRY_MS = 2000;

interface Pages {
  pages: { items: JobSummary[] }[];
}

/** The page's one event stream: keeps cached rows fresh and tells the refresher what changed. */
export class LiveConnection {
  readonly #client: QueryClient;
  readonly #refresher: Refresher;
  readonly #listeners = new Set<() => void>();
  #source: EventSource | null = null;
  #retry: ReturnType<typeof setTimeout> | null = null;
  #state: LiveState = { connection: "connecting", lastNoticeAt: null };

  constructor(client: QueryClient) {
    this.#client = client;
    this.#refresher = new Refresher(client, REFRESH_MS);
  }

  start(): void {
    document.addEventListener("visibilitychange", this.#visibility);
    this.#open();
  }

  stop(): void {
    document.removeEventListener("visibilitychange", this.#visibility);
    if (this.#retry !== null) clearTimeout(this.#retry);
    this.#source?.close();
    this.#refresher.stop();
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  snapshot = (): LiveState => this.#state;

  #open(): void {
    const source = new EventSource("/api/v1/notices");
    this.#source = source;
    // The first event of a stream that begins now: what changed before is in no notice. A stream that the browser
    // resumes goes on after the last id it saw, and has none.
    source.addEventListener("ready", () => {
      this.#set({ connection: "live" });
      this.#refresher.reset();
    });
    source.onopen = () => this.#set({ connection: "live" });
    source.onerror = () => {
      this.#set({ connection: "lost" });
      if (source.readyState !== EventSource.CLOSED) return; // The browser tries again by itself.
      this.#retry = setTimeout(() => this.#open(), RETRY_MS);
    };
    const notice = (event: MessageEvent<string>) => this.#receive(parseNotice(event.data));
    source.addEventListener("job", notice);
    source.addEventListener("data", notice);
    source.addEventListener("reset", () => this.#refresher.reset());
    source.addEventListener("deleted", () => this.#refresher.reset());
  }

  #receive(notice: Notice | null): void {
    if (notice === null) return;
    this.#set({ connection: "live", lastNoticeAt: Date.now() });
    this.#client.setQueryData<Job>(["job", notice.job_id], (job) => job && mergeNotice(job, notice));
    this.#client.setQueriesData<Pages>({ queryKey: ["jobs", "pages"] }, (data) => {
      if (!data) return data;
      return {
        ...data,
        pages: data.pages.map((page) => ({ ...page, items: mergeIntoRows(page.items, notice) })),
      };
    });
    this.#client.setQueryData<{ items: JobSummary[] }>(["jobs", "recent"], (data) => {
      return data && { ...data, items: mergeIntoRows(data.items, notice) };
    });
    this.#refresher.changed(notice.job_id);
  }

  #visibility = (): void => {
    this.#refresher.paused = document.hidden;
  };

  #set(change: Partial<LiveState>): void {
    this.#state = { ...this.#state, ...change };
    for (const listener of this.#listeners) listener();
  }
}
