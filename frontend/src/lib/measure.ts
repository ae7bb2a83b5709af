/** The two ends of what is measured, in ns on the attempt's clock; either may be the earlier one. */
export type Measured = [number, number];

const NS = 1e9;
// By how much of the view an arrow key moves an end: alone, and with Shift.
const STEP = 0.01;
const FINE = 0.001;

/** Where one begins to measure: the middle third of what is shown. */
export function middleOf({ from_ns, to_ns }: { from_ns?: number; to_ns?: number }): Measured | undefined {
  if (from_ns === undefined || to_ns === undefined) return undefined;
  const third = (to_ns - from_ns) / 3;
  return [Math.round(from_ns + third), Math.round(to_ns - third)];
}

/** What two clicks measure: the first puts both ends where it was, the second the other end; a third begins anew.
 * `first`: where the click before was, undefined where the next one is a first. */
export function clickedAt(ns: number, first: number | undefined): Measured {
  return [first ?? ns, ns];
}

/** How far a key moves an end, in s; undefined: it is none of ours. */
export function movedBy(key: string, fine: boolean, seconds: number): number | undefined {
  const step = (fine ? FINE : STEP) * seconds;
  return { ArrowLeft: -step, ArrowDown: -step, ArrowRight: step, ArrowUp: step }[key];
}

/** A time, kept within what is shown: there nobody would find the end again. */
export function kept(ns: number, { from_ns, to_ns }: { from_ns: number; to_ns: number }): number {
  return Math.round(Math.min(Math.max(ns, from_ns), to_ns));
}

/** `12.345 ms`, `0.85 µs`, `1.25 s`: exact enough to tell spans apart. */
export function lengthText(ns: number): string {
  const length = Math.abs(ns);
  const [unit, size] = length < 1e5 ? ["µs", 1e3] : length < NS ? ["ms", 1e6] : ["s", NS];
  return `${Number((length / (size as number)).toPrecision(5))} ${unit}`;
}
