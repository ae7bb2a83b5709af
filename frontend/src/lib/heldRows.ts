// What became of the activations of a job's layers, measured and predicted, as rows. No React here.
import type { JobMemory, MemoryView } from "../api/types";
import type { Cell } from "./csv";

export interface HeldRow {
  key: string;
  worker: number;
  layer: string;
  /** In bytes, in memory when backward began; null: nobody counted. */
  saved: number | null;
  /** The same of worker 0 as it was predicted; undefined: nobody asked, or nothing is said of it. */
  predicted: number | undefined;
  left: number;
  again: number;
  waited_ms: number;
}

export function heldRows(held: JobMemory, predicted: MemoryView | undefined): HeldRow[] {
  const expected = new Map(predicted?.memory.layers.map(({ layer, saved }) => [layer, saved]));
  return held.layers.map((row) => ({
    key: `${row.worker} ${row.layer}`,
    worker: row.worker,
    layer: row.layer < 0 ? "(no layer)" : row.name || "(root)",
    saved: row.saved,
    predicted: row.worker === 0 && row.layer >= 0 ? expected.get(row.name) : undefined,
    left: row.left,
    again: row.again,
    waited_ms: row.waited_ms,
  }));
}

/** The table as rows of a file. */
export function heldCells(rows: HeldRow[]): Cell[][] {
  return [
    ["worker", "layer", "saved (B)", "predicted (B)", "left (B)", "computed again (B)", "waited (ms)"],
    ...rows.map((row) => [
      row.worker,
      row.layer,
      row.saved ?? "",
      row.predicted ?? "",
      row.left,
      row.again,
      row.waited_ms,
    ]),
  ];
}
