import type { ListedWait } from "./why";

/** What the timeline's figure says about itself (`layout.meta`). Times are ns on the attempt's clock. */
export interface TimelineMeta {
  /** The axis counts from here, in seconds. */
  origin_ns?: number;
  from_ns?: number;
  to_ns?: number;
  /** What the answer covers: panning within it needs no other one. */
  covered_ns?: [number, number];
  /** The step that the axis counts from. */
  step?: number | null;
  /** The last one, and the neighbours that kept every event. */
  steps?: { last: number; previous: number | null; next: number | null };
  /** The model's layers by their places. */
  layers?: string[];
  /** The longest ones in view. */
  waits?: ListedWait[];
}

export interface TimelineView {
  step?: number;
  from_ns?: number;
  to_ns?: number;
}

// Closer than this, another level of detail may fit; a little zoom is not worth a question.
const ZOOM_IN = 0.7;
// Nothing is recorded more finely.
const LEAST_NS = 1000;
// No job is longer: eleven days.
const MOST_NS = 1e15;

/**
 * What to ask for after a person moved the x axis to `range` (in the axis's seconds); undefined where the drawing
 * already shows it well. Null is a reset: the whole step again.
 */
export function windowAfter(
  range: { from: number; to: number } | null,
  drawn: TimelineMeta,
): TimelineView | undefined {
  const step = drawn.step ?? undefined;
  if (range === null) return { step };
  const window = windowOf(range, drawn);
  const { from_ns: from, to_ns: to } = drawn;
  if (window === undefined || from === undefined || to === undefined) return undefined;
  const { from_ns: low, to_ns: high } = window;
  const [coveredFrom, coveredTo] = drawn.covered_ns ?? [from, to];
  const within = low >= coveredFrom && high <= coveredTo;
  const sameDetail = high - low > ZOOM_IN * (to - from);
  return within && sameDetail ? undefined : { step, ...window };
}

/** The stretch of the attempt's clock that `range` (in the axis's seconds) is; undefined where it is none. */
export function windowOf(
  range: { from: number; to: number },
  { origin_ns: origin }: TimelineMeta,
): { from_ns: number; to_ns: number } | undefined {
  if (origin === undefined) return undefined;
  const [low, high] = [Math.round(origin + range.from * 1e9), Math.round(origin + range.to * 1e9)];
  return high > low ? { from_ns: low, to_ns: high } : undefined;
}

/** `times` as much time around the middle of what is shown, moved by `by` of it; undefined while nothing is. */
export function windowBy(
  { from_ns: from, to_ns: to }: { from_ns?: number; to_ns?: number },
  times: number,
  by: number,
): { from_ns: number; to_ns: number } | undefined {
  if (from === undefined || to === undefined) return undefined;
  const length = Math.min(Math.max(Math.round(times * (to - from)), LEAST_NS), MOST_NS);
  const low = Math.min(Math.max(Math.round((from + to - length) / 2 + by * (to - from)), 0), MOST_NS);
  return { from_ns: low, to_ns: low + length };
}
