// Choices made by hand in the plan editor, kept as the overrides of the job's specification. No React here.
// The engine decides which layers an override means; what we make ourselves we also know: names and classes.
import type { FieldProblem } from "../api/client";
import type { LayerPlan, Override } from "../api/types";
import { isObject } from "../form/schema";

/** What the editor lets one choose for a layer: the fields of an override, in the table's order. */
export const CHOICES = [
  "exchange",
  "codec",
  "answers",
  "unit",
  "size",
  "depart",
  "rank",
  "returns",
  "update",
  "activations",
] as const;
/** What else an override may say, which is not chosen in the table. */
const WRITTEN = [
  "codec_options",
  "answer_options",
  "entropy_coding",
  "activation_options",
  "fragment",
] as const;
/** Choices whose values have options of their own, and where an override says them. */
export const OPTIONS_OF = {
  codec: "codec_options",
  answers: "answer_options",
  activations: "activation_options",
} as const;
export type Choice = (typeof CHOICES)[number];
export type WithOptions = keyof typeof OPTIONS_OF;
export type Value = string | number | null;

/** The axis of the service's catalogue that a choice is about; undefined: it is none of them. */
export function axisOf(choice: Choice): string | undefined {
  if (choice === "size" || choice === "update") return undefined;
  if (choice === "answers") return "codec";
  return ["unit", "depart", "rank", "returns"].includes(choice) ? `order.${choice}` : choice;
}

export function hasOptions(choice: Choice): choice is WithOptions {
  return choice in OPTIONS_OF;
}

/** What a plan says for one layer. */
export function chosen(plan: LayerPlan, choice: Choice): Value {
  const order = plan.order ?? {};
  const found: Record<Choice, Value | undefined> = {
    exchange: plan.exchange,
    codec: plan.codec,
    answers: plan.answers,
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

/** What the editor knows of a layer: a row of the plan's table. */
export interface Row {
  layer: string;
  /** Its class. */
  kind: string;
}

/** Which layers a choice is for, as an override says it. */
export interface Target {
  layers: string;
  kind?: string | null;
}

/** One layer, by its own name. */
export function only(layer: string): Target {
  return { layers: layer.replace(/[*?[]/g, "[$&]") };
}

/** The layers whose name holds `text`, or matches it where it is a pattern, and that are of a class; null: of any. */
export function some(text: string, kind: string | null): Target {
  const layers = /[*?[]/.test(text) ? text : text ? `*${text}*` : "*";
  return kind === null ? { layers } : { layers, kind };
}

/** The rows that a target means. */
export function meant<R extends Row>(target: Target, rows: R[]): R[] {
  const name = glob(target.layers);
  const kind = target.kind ?? null;
  return rows.filter((row) => name.test(row.layer) && (kind === null || kind === row.kind));
}

/** The place of the override that holds what was chosen for `target`; -1: nothing was. */
export function byHand(overrides: Override[], target: Target): number {
  return overrides.findLastIndex(
    (one) =>
      isByHand(one) && (one.layers ?? "*") === target.layers && (one.kind ?? null) === (target.kind ?? null),
  );
}

/** What the editor's overrides say for a layer while the plan does not say it yet; undefined: nothing. */
export function pending(overrides: Override[], row: Row, choice: Choice): Value | undefined {
  return overrides.findLast(
    (one) => (one[choice] ?? null) !== null && isByHand(one) && meant(targetOf(one), [row]).length > 0,
  )?.[choice];
}

/**
 * `overrides` with one more choice for the layers that `target` means, which wins over all others; null takes it back.
 * It is one override, however many layers. What was chosen by hand before for some of them only gives way.
 */
export function choose(
  overrides: Override[],
  rows: Row[],
  target: Target,
  choice: Choice,
  value: Value,
): Override[] {
  const mine = new Set(meant(target, rows));
  const kept = overrides.flatMap((one) => {
    const theirs = isByHand(one) ? meant(targetOf(one), rows) : [];
    if (theirs.length === 0 || !theirs.every((row) => mine.has(row))) return [one];
    const left = without(one, choice);
    return says(left) ? [left] : [];
  });
  if (value === null) return kept;
  const at = byHand(kept, target);
  // Behind it nothing may stand that means one of these layers: it would win.
  const wins = kept
    .slice(at + 1)
    .every(
      (one) =>
        isByHand(one) && isKnown(one, rows) && !meant(targetOf(one), rows).some((row) => mine.has(row)),
    );
  if (at >= 0 && wins) return kept.map((one, index) => (index === at ? { ...one, [choice]: value } : one));
  return [...kept, { ...target, [choice]: value }];
}

/** The same with options of the value that is chosen or was planned; those that are left out keep their defaults. */
export function chooseOptions(
  overrides: Override[],
  rows: Row[],
  target: Target,
  choice: WithOptions,
  value: Value,
  options: Record<string, unknown>,
): Override[] {
  const found = choose(overrides, rows, target, choice, value);
  const at = byHand(found, target);
  return found.map((one, index) => (index === at ? { ...one, [OPTIONS_OF[choice]]: options } : one));
}

/** What a plan says of a choice's options, or the editor's own override while the plan does not say it yet. */
export function chosenOptions(
  plan: LayerPlan,
  choice: WithOptions,
  mine: Override | undefined,
): Record<string, unknown> {
  const field = OPTIONS_OF[choice];
  return { ...(mine?.[choice] ? {} : plan[field]), ...mine?.[field] };
}

/** `overrides` without what was chosen by hand for `layer` alone. */
export function forget(overrides: Override[], layer: string): Override[] {
  const { layers } = only(layer);
  return overrides.filter((one) => one.layers !== layers || (one.kind ?? null) !== null || !isByHand(one));
}

/** An override in one phrase, as the service says it. */
export function phrase(one: Override): string {
  const layers = one.layers ?? "*";
  const conditions = [
    layers === "*" ? "" : `named ${layers}`,
    one.least_parameters ? `of at least ${one.least_parameters.toLocaleString("en")} parameters` : "",
    one.most_parameters ? `of at most ${one.most_parameters.toLocaleString("en")} parameters` : "",
  ].filter(Boolean);
  const some = one.kind ? `${one.kind} layers` : conditions.length > 0 ? "layers" : "all layers";
  const given = [...CHOICES, ...WRITTEN].filter((choice) => (one[choice] ?? null) !== null);
  const values = given.map((choice) => `${choice} ${said(one[choice])}`);
  const what = [...(one.strategy ? [`as ${one.strategy}`] : []), ...values].join(", ");
  return `${[some, ...conditions].join(" ")}: ${what}`;
}

/** A value in words; options one by one. */
function said(value: unknown): string {
  if (!isObject(value)) return String(value);
  return (
    Object.entries(value)
      .map(([name, option]) => `${name} ${option}`)
      .join(" and ") || "as they are by default"
  );
}

/** What was refused: about each layer, by its name; about each override, by its place; and the rest. */
export function refusals(errors: FieldProblem[], layers: string[], overrides: Override[]) {
  const at = new Map<string, FieldProblem[]>();
  const by = new Map<number, FieldProblem[]>();
  const elsewhere: FieldProblem[] = [];
  const add = <K>(map: Map<K, FieldProblem[]>, key: K, error: FieldProblem) =>
    map.set(key, [...(map.get(key) ?? []), error]);
  for (const error of errors) {
    const named = layers
      .filter((layer) => error.field.startsWith(`layers.${layer}.`))
      .sort((a, b) => b.length - a.length)[0];
    const number = Number(/^overrides\.(\d+)(\.|$)/.exec(error.field)?.[1] ?? -1);
    const layer = named ?? layers.find((name) => number >= 0 && byHand(overrides, only(name)) === number);
    if (layer !== undefined) add(at, layer, error);
    else if (number >= 0 && number < overrides.length) add(by, number, error);
    else elsewhere.push(error);
  }
  return { at, by, elsewhere };
}

/** The choice that a refusal is about; undefined: it is about none of them alone. */
export function refusedChoice(error: FieldProblem): Choice | undefined {
  const last = error.field.split(".").at(-1);
  return CHOICES.find((choice) => choice === last);
}

/** The option that a refusal is about; empty: it is about none. */
export function refusedOption(error: FieldProblem): string {
  return Object.values(OPTIONS_OF)
    .map((field) => error.field.split(`.${field}.`)[1] ?? "")
    .join("");
}

function targetOf(one: Override): Target {
  return { layers: one.layers ?? "*", kind: one.kind };
}

/** What belongs to a choice's value, and goes with it: the service knows a usual one of another value. */
const BESIDE: { [choice in Choice]?: keyof Override } = { unit: "size", ...OPTIONS_OF };

/** An override without a choice. */
function without(one: Override, choice: Choice): Override {
  const gone: string[] = [choice, BESIDE[choice] ?? choice];
  return Object.fromEntries(Object.entries(one).filter(([name]) => !gone.includes(name))) as Override;
}

function says(one: Override): boolean {
  return [...CHOICES, ...WRITTEN].some((name) => (one[name] ?? null) !== null);
}

/** Whether an override is what `choose` makes: values for layers by name and class. */
function isByHand(one: Override): boolean {
  const conditions = [one.least_parameters, one.most_parameters, one.strategy];
  return conditions.every((condition) => condition === undefined || condition === null);
}

/** Whether its kind is a class of the model's, so that we know which layers it means. */
function isKnown(one: Override, rows: Row[]): boolean {
  return (one.kind ?? null) === null || rows.some((row) => row.kind === one.kind);
}

/** A pattern as in file names (Python's fnmatchcase). */
function glob(pattern: string): RegExp {
  const body = pattern.replace(
    /\[(!?)(\]?[^\]]+|\])\]|[\s\S]/g,
    (part, not: string | undefined, set: string) => {
      if (part === "*") return "[\\s\\S]*";
      if (part === "?") return "[\\s\\S]";
      if (part.length > 1) return `[${not ? "^" : ""}${set.replace(/[\\\]^[]/g, "\\$&")}]`;
      return part.replace(/[.+^${}()|[\]\\/-]/, "\\$&");
    },
  );
  return new RegExp(`^${body}$`);
}
