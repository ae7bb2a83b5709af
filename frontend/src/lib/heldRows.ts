// What became of the activations of a job's layers, as rows. No React here.
import type { JobMemory } from "../api/types";
import type { Cell } from "./csv";

export interface HeldRow {
  key: string;
  worker: number;
  layer: string;
  /** In bytes, in memory when backward began; null: nobody counted. */
  saved: number | null;
  left: number;
  again: number;
  waited_ms: number;
}

export function heldRows(held: JobMemory): HeldRow[] {
  return held.layers.map((row) => ({
    key: `${row.worker} ${row.layer}`,
    worker: row.worker,
    layer: row.layer < 0 ? "(no layer)" : row.name || "(root)",
    saved: row.saved,
    left: row.left,
    again: row.again,
    waited_ms: row.waited_ms,
  }));
}

/** The table as rows of a file. */
export function heldCells(rows: HeldRow[]): Cell[][] {
  return [
    ["worker", "layer", "saved (B)", "swapped out (B)", "computed again (B)", "waited (ms)"],
    ...rows.map((row) => [row.worker, row.layer, row.saved ?? "", row.left, row.again, row.waited_ms]),
  ];
}
