// Choices made by hand in the plan editor, kept as the overrides of the job's specification. No React here.
import type { FieldProblem } from "../api/client";
import type { LayerPlan, Override } from "../api/types";

/** What the editor lets one choose for a layer: the fields of an override, in the table's order. */
export const CHOICES = [
  "exchange",
  "codec",
  "unit",
  "size",
  "depart",
  "rank",
  "returns",
  "update",
  "activations",
] as const;
export type Choice = (typeof CHOICES)[number];
export type Value = string | number | null;

/** The axis of the service's catalogue that a choice is about; undefined: it is none of them. */
export function axisOf(choice: Choice): string | undefined {
  if (choice === "size" || choice === "update") return undefined;
  return ["unit", "depart", "rank", "returns"].includes(choice) ? `order.${choice}` : choice;
}

/** What a plan says for one layer. */
export function chosen(plan: LayerPlan, choice: Choice): Value {
  const order = plan.order ?? {};
  const found: Record<Choice, Value | undefined> = {
    exchange: plan.exchange,
    codec: plan.codec,
    unit: order.unit,
    size: order.size,
    depart: order.depart,
    rank: order.rank,
    returns: order.returns,
    update: plan.update,
    activations: plan.activations,
  };
  return found[choice] ?? null;
}

/** The place of the override that holds what was chosen by hand for `layer`; -1: nothing was. */
export function byHand(overrides: Override[], layer: string): number {
  return overrides.findLastIndex((one) => one.layers === pattern(layer) && isByHand(one));
}

/** `overrides` with one more choice for `layer`, which wins over all others; null takes the choice back. */
export function choose(overrides: Override[], layer: string, choice: Choice, value: Value): Override[] {
  const at = byHand(overrides, layer);
  const changed: Override = { ...(overrides[at] ?? { layers: pattern(layer) }), [choice]: value };
  // A size belongs to its unit: the service knows a usual one.
  if (choice === "unit") changed.size = null;
  const others = overrides.filter((_, index) => index !== at);
  return CHOICES.some((name) => (changed[name] ?? null) !== null) ? [...others, changed] : others;
}

/** `overrides` without what was chosen by hand for `layer`. */
export function forget(overrides: Override[], layer: string): Override[] {
  return overrides.filter((one) => one.layers !== pattern(layer) || !isByHand(one));
}

/** What was refused about each layer, by its name, and the rest. */
export function refusals(
  errors: FieldProblem[],
  layers: string[],
  overrides: Override[],
): { at: Map<string, FieldProblem[]>; elsewhere: FieldProblem[] } {
  const at = new Map<string, FieldProblem[]>();
  const elsewhere: FieldProblem[] = [];
  for (const error of errors) {
    const named = layers
      .filter((layer) => error.field.startsWith(`layers.${layer}.`))
      .sort((a, b) => b.length - a.length)[0];
    const number = /^overrides\.(\d+)(\.|$)/.exec(error.field)?.[1];
    const own = number === undefined ? -1 : Number(number);
    const layer = named ?? layers.find((name) => own >= 0 && byHand(overrides, name) === own);
    if (layer === undefined) elsewhere.push(error);
    else at.set(layer, [...(at.get(layer) ?? []), error]);
  }
  return { at, elsewhere };
}

/** A layer's name as a pattern that matches it only. */
function pattern(layer: string): string {
  return layer.replace(/[*?[]/g, "[$&]");
}

/** Whether an override is what `choose` makes: values for one layer, named outright. */
function isByHand(one: Override): boolean {
  const conditions = [one.kind, one.least_parameters, one.most_parameters, one.strategy];
  return conditions.every((condition) => condition === undefined || condition === null);
}
