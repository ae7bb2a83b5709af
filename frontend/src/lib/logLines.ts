/** When a log had how many bytes: columns of equal length, in order. */
export interface LogTimes {
  until: number[];
  unix_ms: number[];
}

/** More matches than that nobody goes through, and each is an element of the page. */
export const MOST_MATCHES = 1000;
const NEWLINE = 10;

/** The times of pieces that follow one another. */
export function joined(known: LogTimes, more: LogTimes): LogTimes {
  const last = known.until.at(-1) ?? -1;
  const at = more.until.findIndex((until) => until > last);
  if (at < 0) return known;
  return {
    until: [...known.until, ...more.until.slice(at)],
    unix_ms: [...known.unix_ms, ...more.unix_ms.slice(at)],
  };
}

/**
 * The text with the time before each line at which it was written, where that is known. `skipped`: bytes of the log
 * before the text. `write`: a time as text, always equally long.
 */
export function stamped(
  text: string,
  skipped: number,
  { until, unix_ms }: LogTimes,
  write: (unixMs: number) => string,
): string {
  const bytes = new TextEncoder().encode(text);
  const blank = " ".repeat(write(0).length);
  const lines = text.split("\n");
  const stamps: string[] = [];
  let row = 0;
  let said = "";
  let start = 0;
  for (let line = 0; line < lines.length; line += 1) {
    const newline = bytes.indexOf(NEWLINE, start);
    const end = skipped + (newline < 0 ? bytes.length : newline + 1);
    while (row < until.length && (until[row] as number) < end) row += 1;
    const at = unix_ms[row];
    const stamp = at === undefined ? blank : write(at);
    // The same second is said once.
    stamps.push(stamp === said ? blank : stamp);
    if (at !== undefined) said = stamp;
    start = newline < 0 ? bytes.length : newline + 1;
  }
  return lines
    .map((line, at) => (at === lines.length - 1 && line === "" ? "" : `${stamps[at]}  ${line}`))
    .join("\n");
}

/** Where `wanted` begins in a text, whatever its case; the first MOST_MATCHES of them. */
export function matchesIn(text: string, wanted: string): number[] {
  if (wanted === "") return [];
  const found: number[] = [];
  const sought = new RegExp(wanted.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
  for (const match of text.matchAll(sought)) {
    found.push(match.index);
    if (found.length === MOST_MATCHES) break;
  }
  return found;
}
