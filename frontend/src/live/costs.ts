import { hashKey, type QueryKey } from "@tanstack/react-query";

const costs = new Map<string, number>();

/** What the last answer of a query cost in ms, to fetch and to draw. The refresher waits a multiple of it. */
export function costOf(queryHash: string): number {
  return costs.get(queryHash) ?? 0;
}

/** Nobody will ask again what is gone from the cache: a zoom of a timeline is a query of its own. */
export function forgetCost(queryHash: string): void {
  costs.delete(queryHash);
}

/** Times the question of a query; the drawing that follows is added by `drawn`. */
export async function timed<T>(key: QueryKey, ask: () => Promise<T>): Promise<T> {
  const start = performance.now();
  const answer = await ask();
  costs.set(hashKey(key), performance.now() - start);
  return answer;
}

/** Times one page more of a list: asked for again, all its pages are. */
export async function timedMore<T>(key: QueryKey, ask: () => Promise<T>): Promise<T> {
  const start = performance.now();
  const answer = await ask();
  drawn(key, performance.now() - start);
  return answer;
}

export function drawn(key: QueryKey, ms: number): void {
  const hash = hashKey(key);
  costs.set(hash, costOf(hash) + ms);
}
