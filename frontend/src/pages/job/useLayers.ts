import { useMemo } from "react";
import type { Job } from "../../api/types";
import { layerTitle } from "../../lib/layerTitle";

/**
 * The layers that one can choose from: those of the plan, else, because a plan of PyTorch's own strategies has none, those
 * that a figure names by their places. Stable.
 */
export function useLayers(job: Job, drawn: string[] | undefined): { value: string; label: string }[] {
  const named = job.plan.layers.length > 0 ? undefined : drawn;
  return useMemo(
    () =>
      named?.map((label, index) => ({ value: String(index), label })) ??
      job.plan.layers.map(({ row }) => ({ value: String(row.position), label: layerTitle(row) })),
    [job.plan, named],
  );
}
