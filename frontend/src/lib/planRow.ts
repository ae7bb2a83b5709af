// What a row of a plan's table says. No React here.
import type { LayerPlan, PlanView } from "../api/types";

/** Of what step the rows' bytes are: workers that average exchange in one step of a period only. */
export function wireHead(plan: PlanView): string {
  return plan.consistency.mode === "average" ? "Wire/average" : "Wire/step";
}

/** Where a layer is computed, unless every worker has it, and how its contributions meet. */
export function exchanged(layer: LayerPlan): string {
  if (layer.placement === "device") return "on device";
  const exchange = layer.exchange ?? "none";
  if (layer.placement !== "stage") return exchange;
  return exchange === "none" ? `stage ${layer.place}` : `stage ${layer.place}, ${exchange}`;
}
