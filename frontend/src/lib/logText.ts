/** What the page keeps of one log: a browser lays out no more than that fluently. */
export const KEPT_BYTES = 2 * 1024 * 1024;

export interface LogText {
  text: string;
  /** Bytes of `text`. */
  bytes: number;
  /** Bytes before the first one of `text`. */
  skipped: number;
}

const NEWLINE = 10;

/** The log with what came next; of more than `limit` bytes the oldest lines go. */
export function append(log: LogText, piece: string, limit = KEPT_BYTES): LogText {
  const text = log.text + piece;
  const bytes = log.bytes + new TextEncoder().encode(piece).length;
  if (bytes <= limit) return { ...log, text, bytes };
  const whole = new TextEncoder().encode(text);
  const newline = whole.indexOf(NEWLINE, whole.length - limit - 1);
  let cut = newline >= 0 ? newline + 1 : whole.length - limit;
  while (((whole[cut] ?? 0) & 0xc0) === 0x80) cut += 1; // inside of a character
  return {
    text: new TextDecoder().decode(whole.subarray(cut)),
    bytes: whole.length - cut,
    skipped: log.skipped + cut,
  };
}
