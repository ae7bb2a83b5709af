// What a row of a plan's table says. No React here.
import type { LayerPlan, PlanView } from "../api/types";
import type { Cell } from "./csv";

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

/** A plan as it is taken along: a row for each layer, with all of its columns, and bytes as numbers. */
export function planRows(plan: PlanView): Cell[][] {
  const head = [
    "layer",
    "kind",
    "parameters",
    "exchange",
    "codec",
    "order",
    "units",
    "payload",
    "answer",
    "update",
    "barrier",
    `${wireHead(plan).toLowerCase()} (bytes)`,
  ];
  const rows = plan.layers.map(({ row, plan: own }) => [
    row.layer,
    row.kind,
    row.parameters,
    exchanged(own),
    row.codec,
    row.order,
    row.units,
    row.payload,
    row.answer,
    row.update,
    row.barrier,
    row.wire_bytes,
  ]);
  return [head, ...rows];
}
