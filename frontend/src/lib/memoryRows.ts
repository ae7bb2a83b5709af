// What a worker's predicted memory says, as rows. No React here.
import type { MemoryView } from "../api/types";
import type { Cell } from "./csv";
import { formatBytes } from "./format";
import { layerName } from "./layerTitle";

const WHEN: Record<string, string> = { again: "a second forward", update: "the update" };

/** The highest moment in a sentence. */
export function highest({ memory }: MemoryView): string {
  const { peak, samples } = memory;
  const where = peak.layer === null ? "" : ` at ${layerName({ layer: peak.layer })}`;
  const moment = `${WHEN[peak.when] ?? peak.when}${where}`;
  const beside =
    memory.offloaded > 0 ? `; ${formatBytes(memory.offloaded)} of the optimizer's state are on a disk` : "";
  return `${formatBytes(memory.total)} at the most, in ${moment}, with passes of ${samples} samples${beside}`;
}

/** Of what it is made, and what the plan declares beside the step: the largest first, and nothing that is not there. */
export function madeOf({ memory }: MemoryView): [string, number][] {
  const parts: [string, number][] = [
    ...Object.entries(memory.peak.parts),
    ["servers, codecs and averages", memory.beside - memory.checkpoint],
    ["a checkpoint's copy", memory.checkpoint],
  ];
  return parts.filter(([, bytes]) => bytes > 0).sort((one, other) => other[1] - one[1]);
}

/** The table as rows of a file, in bytes. */
export function memoryRows({ memory }: MemoryView): Cell[][] {
  return [
    ["layer", "kind", "activations", "declared (B)", "saved for backward (B)"],
    ...memory.layers.map((row) => [layerName(row), row.kind, row.activations, row.declared, row.saved]),
  ];
}
