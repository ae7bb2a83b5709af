import type { Summary } from "../api/types";

/** In place of a number that there is not. */
export const NONE = "–";
/** ... of which one may expect that it is always measured. */
export const NOT_MEASURED = "not measured";
/** In place of a number that is asked for. */
export const COMING = "…";

/** Three significant digits, thousands grouped; a dash where there is no number. */
export function formatNumber(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  return value.toLocaleString(
    "en",
    value >= 10 ** digits ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: digits },
  );
}

export function formatMs(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  return value >= 10_000 ? `${formatNumber(value / 1000)} s` : `${formatNumber(value)} ms`;
}

/** Times of an iteration and of its parts. This and what follows round as `backend/rounding.py` says: the terminal and
 * the page write one figure in one way. */
export function formatStepTime(ms: number | null | undefined): string {
  return isNumber(ms) ? `${formatFixed(ms, 2)} ms` : NONE;
}

/** Samples per second. */
export function formatThroughput(value: number | null | undefined): string {
  return isNumber(value) ? formatFixed(value, 1) : NONE;
}

/** A member's relative time, which is over the fastest's: members of a race lie close together. */
export function formatTimesFastest(value: number | null | undefined): string {
  return isNumber(value) ? formatFixed(value, 3) : NONE;
}

export function formatPercent(share: number | null | undefined): string {
  return share === null || share === undefined ? NONE : `${formatFixed(100 * share, 1)} %`;
}

/** A share of all processors or of a port's rate. */
export function formatBusy(share: number | null | undefined): string {
  return isNumber(share) ? `${formatFixed(100 * share, 0)} %` : NONE;
}

export function formatSpeedUp(value: number | null | undefined, caveat?: string | null): string {
  return isNumber(value) ? `${formatFixed(value, 2)}x${caveat ? "*" : ""}` : NONE;
}

/** Binary units, as the service writes them (`format_bytes` in `engine/plan/units_of_measure.py`). */
export function formatBytes(value: number | null | undefined): string {
  if (!isNumber(value)) return NONE;
  if (value < 1024) return `${formatFixed(value, 0)} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(Math.floor(Math.log2(value) / 10), units.length);
  return `${formatFixed(value / 1024 ** power, 1)} ${units[power - 1]}`;
}

const RATES = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
] as const;

/** Decimal units, as networks are sold, and as the service writes them (`format_rate` in the same file). */
export function formatRate(bps: number | null | undefined): string {
  if (!isNumber(bps)) return NONE;
  // What rounds to 1000 of one prefix is 1 of the next.
  const [size, prefix] = RATES.find(([size]) => bps >= 0.9995 * size) ?? [1, ""];
  return `${formatNumber(bps / size)} ${prefix}bit/s`;
}

/** `12 s`, `3 min 20 s`, `2 h 5 min`. */
export function formatDuration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return NONE;
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** A time in its largest unit, for columns: `43 s`, `26 min`, `3 h`, `2 d`. */
export function formatSpan(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return NONE;
  const whole = Math.max(0, Math.floor(seconds));
  for (const [size, unit] of [
    [86_400, "d"],
    [3_600, "h"],
    [60, "min"],
  ] as const) {
    if (whole >= size) return `${Math.floor(whole / size)} ${unit}`;
  }
  return `${whole} s`;
}

/** How long ago, for people: `now`, `12 s ago`, `3 min ago`. */
export function formatAge(ms: number): string {
  if (ms < 2000) return "now";
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s ago`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ago`;
  const hours = Math.floor(ms / 3_600_000);
  return hours < 48 ? `${hours} h ago` : `${Math.floor(hours / 24)} d ago`;
}

/** `1 step`, `2 steps`. */
export function counted(count: number, what: string, several = `${what}s`): string {
  return `${count} ${count === 1 ? what : several}`;
}

/** Bytes of a step: as the plan declares them, else as they were counted, which is said. `per` follows the unit. */
export function wireText(
  {
    wire_bytes_per_step: declared,
    counted_bytes_per_step: sent,
  }: Pick<Summary, "wire_bytes_per_step" | "counted_bytes_per_step">,
  per = "",
): string {
  if (declared !== null) return `${formatBytes(declared)}${per}`;
  return sent === null ? NONE : `${formatBytes(sent)}${per} (counted)`;
}

/** `wire_bytes_per_step` as people read it. */
export function humanize(name: string): string {
  const text = name.replace(/_s$/, " (s)").replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** `Host rate` of `Host rates`: what one entry of a list is called. */
export function singular(title: string): string {
  return title.replace(/ies$/, "y").replace(/s$/, "");
}

function isNumber(value: number | null | undefined): value is number {
  return value !== null && value !== undefined && Number.isFinite(value);
}

/** With so many digits after the point, as Python writes it: what lies halfway goes to the even digit. */
export function formatFixed(value: number, digits: number): string {
  const text = value.toFixed(digits);
  const unit = 10 ** digits;
  const halfway = Number.isInteger(value * 2 ** (digits + 1)) && Math.abs((value * unit) % 1) === 0.5;
  return halfway ? ((2 * Math.round((value * unit) / 2)) / unit).toFixed(digits) : text;
}

/** Whose a figure is, where workers differ: `169.6 ms, worker 0`. */
export function ofWorker(text: string, worker: number | null): string {
  return worker === null ? text : `${text}, worker ${worker}`;
}
