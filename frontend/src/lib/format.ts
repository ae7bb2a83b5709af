const NONE = "–";

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

export function formatPercent(share: number | null | undefined): string {
  return share === null || share === undefined ? NONE : `${(100 * share).toFixed(1)} %`;
}

export function formatSpeedUp(value: number | null | undefined, caveat?: string | null): string {
  return value === null || value === undefined ? NONE : `${value.toFixed(2)}×${caveat ? "*" : ""}`;
}

/** Binary units, as the engine prints them. */
export function formatBytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (value < 1024) return `${value} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(Math.floor(Math.log2(value) / 10), units.length);
  return `${formatNumber(value / 1024 ** power)} ${units[power - 1]}`;
}

/** Decimal units, as networks are sold. */
export function formatRate(bps: number | null | undefined): string {
  if (bps === null || bps === undefined) return NONE;
  const [unit, size] =
    bps >= 1e9
      ? (["Gbit/s", 1e9] as const)
      : bps >= 1e6
        ? (["Mbit/s", 1e6] as const)
        : (["kbit/s", 1e3] as const);
  return `${formatNumber(bps / size)} ${unit}`;
}

/** `12 s`, `3 min 20 s`, `2 h 5 min`. */
export function formatDuration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return NONE;
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** How long ago, for people: `now`, `12 s ago`, `3 min ago`. */
export function formatAge(ms: number): string {
  if (ms < 2000) return "now";
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s ago`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ago`;
  return `${Math.floor(ms / 3_600_000)} h ago`;
}

/** `wire_bytes_per_step` as people read it. */
export function humanize(name: string): string {
  const text = name.replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
