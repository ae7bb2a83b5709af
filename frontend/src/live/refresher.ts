import type { Query, QueryClient } from "@tanstack/react-query";
import { costOf, forgetCost } from "./costs";

declare module "@tanstack/react-query" {
  interface Register {
    queryMeta: {
      /** Ids of the jobs that the query shows, or "all". */
      jobs?: string[] | "all";
    };
  }
}

// A query may take one part in so many of the time: the jobs that train often share these cores.
const SHARE = 5;

/**
 * Asks again for what changed, at most once in `intervalMs`, more rarely where the answer is costly, and only for
 * queries that are on screen.
 *
 * Each job has a counter of its changes. A live query that has not seen the newest count is invalidated, unless
 * it is being fetched (then it is asked again afterwards, so that the last change is never lost and a slow
 * figure is not cancelled over and over). Queries that nobody shows are only marked stale.
 */
export class Refresher {
  readonly #client: QueryClient;
  readonly #intervalMs: number;
  readonly #changes = new Map<string, number>();
  readonly #seen = new WeakMap<Query, { count: number; at: number }>();
  readonly #outdated = new WeakSet<Query>();
  #total = 0;
  readonly #unsubscribe: () => void;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #paused = false;

  constructor(client: QueryClient, intervalMs: number) {
    this.#client = client;
    this.#intervalMs = intervalMs;
    this.#unsubscribe = client.getQueryCache().subscribe(({ type, query }) => {
      if (type === "removed") forgetCost(query.queryHash);
    });
  }

  /** Something about this job changed. */
  changed(jobId: string): void {
    this.#changes.set(jobId, (this.#changes.get(jobId) ?? 0) + 1);
    this.#total += 1;
    this.#schedule();
  }

  /** Notices were missed: whatever was asked for until now, answered or not, may be outdated. */
  reset(): void {
    for (const query of this.#client.getQueryCache().getAll())
      if (query.meta?.jobs !== undefined) this.#outdated.add(query);
    this.#schedule();
  }

  /** While paused (the page is hidden) changes are counted, not fetched. */
  set paused(value: boolean) {
    this.#paused = value;
    if (!value) this.#schedule();
  }

  stop(): void {
    this.#unsubscribe();
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #schedule(): void {
    if (this.#timer === null && !this.#paused)
      this.#timer = setTimeout(() => this.#flush(), this.#intervalMs);
  }

  #flush(): void {
    this.#timer = null;
    if (this.#paused) return;
    let left = false;
    for (const query of this.#client.getQueryCache().getAll()) {
      const count = this.#count(query);
      const seen = this.#seen.get(query) ?? { count: 0, at: 0 };
      if (count === seen.count && !this.#outdated.has(query)) continue;
      if (query.state.fetchStatus === "fetching" || Date.now() - seen.at < SHARE * costOf(query.queryHash)) {
        left = true;
        continue;
      }
      this.#seen.set(query, { count, at: Date.now() });
      this.#outdated.delete(query);
      void this.#client.invalidateQueries({ queryKey: query.queryKey, exact: true });
    }
    if (left) this.#schedule();
  }

  #count(query: Query): number {
    const jobs = query.meta?.jobs;
    if (jobs === undefined) return 0;
    if (jobs === "all") return this.#total;
    return jobs.reduce((sum, id) => sum + (this.#changes.get(id) ?? 0), 0);
  }
}
