import type { StrategyEntry } from "../api/types";

/** The recommended ones first; otherwise in the catalogue's order. */
export function recommendedFirst(entries: StrategyEntry[]): StrategyEntry[] {
  return entries.toSorted((a, b) => Number(b.recommended) - Number(a.recommended));
}
