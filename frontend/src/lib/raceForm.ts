import type { Override, RaceSpec } from "../api/types";
import { setAt } from "../form/schema";
import type { LaunchSearch } from "./search";

/** One who races: a strategy with the options that differ from its own defaults. */
export interface Member {
  strategy: string;
  options?: Record<string, unknown>;
  /** Other choices for some layers; none: the job's own. */
  overrides?: Override[] | null;
  /** What people call it. */
  name?: string | null;
}

/** What a race asks for beyond its job. */
export interface RaceForm {
  members: Member[];
  /** As people write them: `100Mbit`. None: the job's own. */
  rates: string[];
  rounds: number;
  /** Numbers of workers and global batches. None: the job's own. */
  workers?: number[];
  batches?: number[];
  /** Whether other jobs may run meanwhile. */
  beside?: boolean;
}

/** What a race has that is not told how many. */
export const USUAL_ROUNDS = 4;
export const MOST_ROUNDS = 50;

/** What the field of rounds means: while it is empty, the usual number. */
export function roundsOf(typed: string | number): number {
  return typeof typed === "number" && typed >= 1 ? typed : USUAL_ROUNDS;
}

type Spec = Record<string, unknown>;

/** Rates that most people ask about; others are typed. */
export const COMMON_RATES = ["100Mbit", "300Mbit", "1Gbit", "10Gbit"];

/** The members when these strategies are chosen: who was there keeps its options and its place. */
export function chosen(members: Member[], names: string[]): Member[] {
  const kept = members.filter(({ strategy }) => names.includes(strategy));
  const there = new Set(kept.map(({ strategy }) => strategy));
  return [...kept, ...names.filter((name) => !there.has(name)).map((strategy) => ({ strategy }))];
}

/** Those of the options that are not their defaults. */
export function differing(
  options: Record<string, unknown>,
  defaults: Record<string, unknown>,
): Record<string, unknown> {
  const same = (name: string, value: unknown) =>
    name in defaults && JSON.stringify(value) === JSON.stringify(defaults[name]);
  return Object.fromEntries(Object.entries(options).filter(([name, value]) => !same(name, value)));
}

/** A name that two members have: the service refuses such a race. Undefined: each has its own. */
export function twins(members: Member[]): string | undefined {
  const names = members.map(nameOf);
  return names.find((name, place) => names.indexOf(name) < place);
}

/** The most workers that anybody runs with; null while the job's field says no number. */
export function mostWorkers(spec: Spec, form: RaceForm): number | null {
  if (form.workers?.length) return Math.max(...form.workers);
  const own = (spec.cluster as Spec | undefined)?.workers;
  return typeof own === "number" ? own : null;
}

/** A race's job after a change: where every worker had a host of its own, of so many `before`, it still has one. */
export function withOwnHosts(spec: Spec, form: RaceForm, before: number): Spec {
  const now = mostWorkers(spec, form);
  const own = (spec.network as Spec | undefined)?.hosts === before;
  return own && now !== null ? (setAt(spec, "network.hosts", now) as Spec) : spec;
}

/** The job that a member runs under the race's first condition: what is planned to see whether it can run. */
export function jobOf(spec: Spec, form: RaceForm, member: Member): Spec {
  const strategy = { name: member.strategy, options: member.options ?? {} };
  const own = member.overrides ? { overrides: member.overrides } : {};
  const first: [string, unknown][] = [
    ["cluster.alone", !form.beside],
    ["network.rate", form.rates[0]],
    ["cluster.workers", form.workers?.[0]],
    ["training.global_batch", form.batches?.[0]],
  ];
  return first
    .filter(([, value]) => value !== undefined)
    .reduce((job, [path, value]) => setAt(job, path, value) as Spec, {
      ...spec,
      ...own,
      strategy,
      baseline: null,
    } as Spec);
}

/** What is sent to start the race. Its job's own strategy takes no part. */
export function raceOf(spec: Spec, form: RaceForm): Spec {
  const job = { ...spec, strategy: { name: "single", options: {} }, baseline: null };
  return { job, ...form };
}

/** A race's job when it is launched alone. One that only races has no strategy of its own: `single`, which cannot be where
 * there are several workers. The first who races in its place is, with what `defaults` says of its options. */
export function asOneJob(spec: Spec, form: RaceForm, defaults: (strategy: string) => object): Spec {
  const { name } = (spec.strategy ?? {}) as Spec;
  const workers = (spec.cluster as Spec | undefined)?.workers;
  const first = form.members.find(({ strategy }) => strategy !== "single");
  if (name !== "single" || workers === 1 || first === undefined) return spec;
  const options = { ...defaults(first.strategy), ...first.options };
  const own = first.overrides ? { overrides: first.overrides } : {};
  return { ...spec, ...own, strategy: { name: first.strategy, options } };
}

/** The race again, with what is changed: a job's form, and the race's. */
export function againOf(
  race: RaceSpec,
  changed: Pick<LaunchSearch, "member" | "rate" | "workers" | "batch" | "rounds" | "fidelity">,
): { job: Spec; form: RaceForm } {
  const { job, members = [], rates = [], rounds: before = USUAL_ROUNDS, beside } = race;
  const { member, rate, rounds, fidelity } = changed;
  const there = member === undefined || members.some(({ strategy }) => strategy === member);
  const workers = changed.workers === undefined ? race.workers : [changed.workers];
  const batches = changed.batch === undefined ? race.batches : [changed.batch];
  return {
    // The form has one name, the job's; a race that was given its own keeps that.
    job: { ...job, ...(race.name && { name: race.name }), ...(fidelity && { fidelity }) },
    form: {
      members: there ? members : [...members, { strategy: member }],
      rates: rate ? [rate] : rates,
      rounds: rounds ?? before,
      ...(workers?.length && { workers }),
      ...(batches?.length && { batches }),
      ...(beside && { beside }),
    },
  };
}

/** How much that is: `24 jobs: 4 strategies at 2 rates in 3 rounds`. */
export function jobsOf({ members, rates, rounds, workers = [], batches = [], beside }: RaceForm): string {
  const conditions = [rates, workers, batches].reduce((count, { length }) => count * Math.max(1, length), 1);
  const count = members.length * conditions * rounds;
  const strategies = `${members.length} ${members.length === 1 ? "strategy" : "strategies"}`;
  const at = rates.length > 1 ? ` at ${rates.length} rates` : "";
  const also = [
    workers.length > 0 && `with ${workers.join(", ")} ${workers.join() === "1" ? "worker" : "workers"}`,
    batches.length > 0 && `global batches of ${batches.join(", ")}`,
    beside && "beside other jobs",
  ].filter((text) => text !== false && text !== undefined);
  const said = `${count} ${count === 1 ? "job" : "jobs"}: ${strategies}${at} in ${rounds} ${rounds === 1 ? "round" : "rounds"}`;
  return [said, ...also].join(", ");
}

/** `p3 (slice_size=500, 1 override)`, or what people call it. */
export function nameOf({ strategy, options = {}, overrides, name }: Member): string {
  if (name) return name;
  const set = Object.entries(options).map(([name, value]) => `${name}=${value}`);
  if (overrides) {
    set.push(`${overrides.length || "no"} ${overrides.length === 1 ? "override" : "overrides"}`);
  }
  return set.length > 0 ? `${strategy} (${set.join(", ")})` : strategy;
}

/** What the service says of the race's job, at the job's own fields. */
export function ofTheJob<E extends { field: string }>(errors: E[]): E[] {
  return errors.map((error) => ({ ...error, field: error.field.replace(/^job\./, "") }));
}
