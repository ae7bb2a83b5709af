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
// A browser opens six connections to one host, for all its tabs together, and a stream holds one: a tab that stays
// hidden lets go of its own. Who only looks at another tab for a moment keeps it.
const LET_GO_MS = 10_000;
const ADDRESS = "/api/v1/notices";

interface Pages {
  pages: { items: JobSummary[] }[];
}

/**
 * The page's one event stream: keeps cached rows fresh and tells the refresher what changed. A page that is hidden has
 * none after a while; shown again, it goes on after the last event that it saw.
 */
export class LiveConnection {
  readonly #client: QueryClient;
  readonly #refresher: Refresher;
  readonly #listeners = new Set<() => void>();
  #source: EventSource | null = null;
  #lastId: string | null;
  #retry: ReturnType<typeof setTimeout> | null = null;
  #letGo: ReturnType<typeof setTimeout> | null = null;
  #state: LiveState = { connection: "connecting", lastNoticeAt: null };

  /** `since`: the notice after which it begins; without, it begins with what comes, and all is asked for again. */
  constructor(client: QueryClient, since?: number | null) {
    this.#client = client;
    this.#lastId = since === undefined || since === null ? null : String(since);
    this.#refresher = new Refresher(client, REFRESH_MS);
  }

  start(): void {
    document.addEventListener("visibilitychange", this.#visibility);
    this.#refresher.paused = document.hidden;
    if (!document.hidden) this.#open();
  }

  stop(): void {
    document.removeEventListener("visibilitychange", this.#visibility);
    this.#keep();
    this.#close();
    this.#refresher.stop();
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  snapshot = (): LiveState => this.#state;

  #open(): void {
    // A new stream cannot send the header by which a browser resumes one that broke.
    const resumed = this.#lastId === null ? "" : `?last_event_id=${encodeURIComponent(this.#lastId)}`;
    const source = new EventSource(ADDRESS + resumed);
    this.#source = source;
    source.onopen = () => {
      if (this.#state.connection === "lost") this.#askAgain();
      this.#set({ connection: "live" });
    };
    source.onerror = () => {
      this.#set({ connection: "lost" });
      if (source.readyState !== EventSource.CLOSED) return; // The browser tries again by itself.
      this.#close();
      // It was answered with an error, or not at all: it may be that this browser's session ended.
      void this.#client.invalidateQueries({ queryKey: ["session"] });
      this.#retry = setTimeout(() => this.#open(), RETRY_MS);
    };
    const hear = (kind: string, act: (event: MessageEvent<string>) => void) =>
      source.addEventListener(kind, (event: MessageEvent<string>) => {
        this.#lastId = event.lastEventId;
        act(event);
      });
    // The first event of a stream that begins now: what changed before is in no notice. One that is resumed goes on
    // after the last id that was seen, and has none.
    hear("ready", () => {
      this.#set({ connection: "live" });
      this.#refresher.reset();
    });
    hear("job", (event) => this.#receive(parseNotice(event.data)));
    hear("data", (event) => this.#receive(parseNotice(event.data)));
    hear("reset", () => this.#refresher.reset());
    hear("deleted", () => this.#refresher.reset());
  }

  /** What failed while the service was away is in no notice. */
  #askAgain(): void {
    void this.#client.invalidateQueries({ predicate: (query) => query.state.status === "error" });
  }

  /** Ends the stream, and what would open it again; what is known of the connection stays. */
  #close(): void {
    if (this.#retry !== null) clearTimeout(this.#retry);
    this.#retry = null;
    this.#source?.close();
    this.#source = null;
  }

  /** Lets a stream that was about to be closed go on. */
  #keep(): void {
    if (this.#letGo !== null) clearTimeout(this.#letGo);
    this.#letGo = null;
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
    this.#keep();
    if (document.hidden) this.#letGo = setTimeout(() => this.#close(), LET_GO_MS);
    else if (this.#source === null && this.#retry === null) this.#open();
  };

  #set(change: Partial<LiveState>): void {
    this.#state = { ...this.#state, ...change };
    for (const listener of this.#listeners) listener();
  }
}
