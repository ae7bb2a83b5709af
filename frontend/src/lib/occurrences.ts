import type { Events } from "../api/types";
import { kindName } from "./eventRows";

/** One of a layer's events in a step. Times are ns on the attempt's clock. */
export interface Occurrence {
  start: number;
  end: number;
  kind: string;
  party: string;
}

// An event that is jumped to takes at least this part of the view, and at most that.
const LEAST_PART = 1 / 50;
const MOST_PART = 1 / 2;
// Nothing is recorded more finely.
const LEAST_NS = 1000;

/** A layer's events in the order of time, as the API's columns have them. */
export function occurrencesIn({ start_ns, end_ns, kind, worker, parties }: Events): Occurrence[] {
  return start_ns.map((start, at) => ({
    start,
    end: end_ns[at] ?? start,
    kind: kindName(kind[at]),
    party: parties[worker[at] ?? -1] ?? "",
  }));
}

/** The stretch of time around an event: as long as the one that is shown, where the event can be seen in that. */
export function around(
  { start, end }: Occurrence,
  shown: { from_ns?: number; to_ns?: number },
): { from_ns: number; to_ns: number } {
  const took = Math.max(end - start, LEAST_NS);
  const length = (shown.to_ns ?? end) - (shown.from_ns ?? start);
  const kept = Math.round(Math.min(Math.max(length, took / MOST_PART), took / LEAST_PART));
  const from = Math.round((start + end - kept) / 2);
  return { from_ns: from, to_ns: from + kept };
}

/** The place of the event after `at`, or of the one before; at none yet: the first, or the last. Both ends meet. -1: none. */
export function nextAfter(found: Occurrence[], at: number | undefined, by: 1 | -1): number {
  if (found.length === 0) return -1;
  return at === undefined ? (by > 0 ? 0 : found.length - 1) : (at + by + found.length) % found.length;
}
