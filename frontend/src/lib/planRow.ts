// What a row of a plan's table says. No React here.
import type { LayerPlan, PlanView } from "../api/types";
import type { Cell } from "./csv";
import { formatBytes, formatPercent } from "./format";
import { layerName } from "./layerTitle";

/** Of what step the rows' bytes are: workers that average exchange in one step of a period only. */
export function wireHead(plan: PlanView): string {
  return plan.averages ? "Wire/average" : "Wire/step";
}

/** Bytes on the wire, of which some codecs only know the most. */
export function wireBytes(bytes: number, exact: boolean): string {
  return exact ? formatBytes(bytes) : `at most ${formatBytes(bytes)}`;
}

/** Whether the activations of any layer are not simply kept. */
export function movesActivations({ layers }: PlanView): boolean {
  return layers.some(({ row }) => row.activations !== "");
}

/** What a budget of memory came to, as totals: what they are called, and their values. */
export function budgetTotals({ memory }: PlanView): [string, string][] {
  if (!memory) return [];
  const { budget, peak, pass_ns, extra_ns } = memory;
  return [
    ["budget of a worker's memory", formatBytes(budget)],
    ["predicted peak", formatBytes(peak)],
    ["predicted extra time", pass_ns > 0 ? formatPercent(extra_ns / pass_ns) : formatPercent(0)],
  ];
}

/** What happens to a layer's activations; empty where they stay and nothing says why. */
export function activationsOf(row: PlanView["layers"][number]["row"]): string {
  return row.activations || (row.activations_why ? "keep" : "");
}

/** Over the layers' units: where layers share some, these count once for each, and their sum is more than there are. */
export function unitsHead({ units, layers }: PlanView): "Units" | "Units, shared" {
  return layers.reduce((sum, { row }) => sum + row.units, 0) > units ? "Units, shared" : "Units";
}

/** Where a layer is computed, unless every worker has it, and how its contributions meet. */
export function exchanged(layer: LayerPlan): string {
  if (layer.placement === "device") return "on device";
  const exchange = layer.exchange ?? "none";
  if (layer.placement !== "stage") return exchange;
  return exchange === "none" ? `stage ${layer.place}` : `stage ${layer.place}, ${exchange}`;
}

/** A plan's table as rows of a file: a layer each, and all that a plan's table says of it. */
export function planRows(plan: PlanView): Cell[][] {
  const head = [
    "layer",
    "kind",
    "parameters",
    "exchange",
    "codec",
    "activations",
    "why so",
    "order",
    "units",
    "travels",
    "comes back",
    "update",
    "barrier",
    `on the wire (B/${wireHead(plan).split("/")[1]})`,
    "at most",
  ];
  const rows = plan.layers.map(({ row, plan: own }) => [
    layerName(row),
    row.kind,
    row.parameters,
    exchanged(own),
    row.codec,
    activationsOf(row),
    row.activations_why,
    row.order,
    row.units,
    row.payload,
    row.answer,
    row.update,
    row.barrier,
    row.wire_bytes,
    row.wire_exact ? "" : "yes",
  ]);
  return [head, ...rows];
}
