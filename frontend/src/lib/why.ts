/** Which wait of a job: of which worker, in which step, for which layer; its unit that came last (-1: whichever). */
export interface WaitKey {
  worker: number;
  step: number;
  layer: number;
  unit: number;
}

/** A wait as a figure lists it (`layout.meta.waits`); in a race with its job's number. */
export interface ListedWait {
  job?: number;
  party: number;
  step: number;
  layer: number;
  unit: number;
  layer_name: string;
  ns: number;
}

const WAIT_KIND = 2; // engine/telemetry/events.py

/** Reads a wait from the address; undefined where it is none. */
export function parseWait(text: string | undefined): WaitKey | undefined {
  const numbers = (text ?? "").split(",").map(Number);
  const [worker, step, layer, unit] = numbers;
  if (numbers.length !== 4 || !numbers.every(Number.isSafeInteger)) return undefined;
  return { worker, step, layer, unit } as WaitKey;
}

export function formatWait(wait: WaitKey): string {
  return [wait.worker, wait.step, wait.layer, wait.unit].join(",");
}

export function keyOf(wait: ListedWait): WaitKey {
  return { worker: wait.party, step: wait.step, layer: wait.layer, unit: wait.unit };
}

/** The wait that a bar stands for, by its customdata (job, party, step, layer, unit, kind, peer); else undefined. */
export function waitOfBar(customdata: unknown): { job: number; wait: WaitKey } | undefined {
  if (!ArrayBuffer.isView(customdata) && !Array.isArray(customdata)) return undefined;
  const [job, worker, step, layer, unit, kind] = Array.from(customdata as ArrayLike<number>);
  if (kind !== WAIT_KIND) return undefined;
  return { job, wait: { worker, step, layer, unit } } as { job: number; wait: WaitKey };
}
