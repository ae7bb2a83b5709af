import type { JobState } from "../api/types";
import { isSort } from "./jobColumns";
import { JOB_STATES } from "./jobState";
import { formatWait, parseWait } from "./why";

// The view's state in the address: plain, readable query strings that survive copying.

export const GROUPS = ["model", "strategy", "tag", "race"] as const;
export type GroupBy = (typeof GROUPS)[number];

/** Which jobs are listed. */
export interface JobsFilter {
  state?: JobState;
  strategy?: string;
  model?: string;
  text?: string;
  tag?: string;
  /** Who made them. */
  owner?: string;
  /** With any tag, or without one. */
  tagged?: boolean;
  /** The id of the race that they ran in. */
  race?: string;
  /** Of any race, or of none. */
  raced?: boolean;
}

/** No tag and no model is called so: a comma is not allowed there. */
export const NO_GROUP = ",none";

/** The jobs of one group: `value` is what they have in common. */
export function groupFilter(by: GroupBy, value: string | null): JobsFilter {
  if (value !== null) return { [by]: value };
  return by === "tag" ? { tagged: false } : by === "race" ? { raced: false } : {};
}

/** The list of jobs: which, in which order, in which groups. */
export interface JobsSearch extends JobsFilter {
  /** A column, `-` for the largest first; none: the newest first. */
  sort?: string;
  group?: GroupBy;
  /** The group that is open, by what its jobs have in common; NO_GROUP: those that have none. */
  open?: string;
  /** The jobs that are chosen, to do something with them. */
  selected?: string[];
}

/** What the race shows. No jobs: it asks which. No step: the latest, as it comes. */
export interface RaceSearch {
  jobs?: string[];
  step?: number;
  /** What is looked at closely, in ns since the step's start. */
  from_ns?: number;
  to_ns?: number;
  /** The wait that is explained, and whose it is. */
  why?: string;
  why_job?: string;
}

export const MEASURES = ["loss", "accuracy", "throughput"] as const;
export type Measure = (typeof MEASURES)[number];
export const BYS = ["step", "samples", "bytes", "time"] as const;
export type By = (typeof BYS)[number];
/** Percent; the service takes no more. */
const MOST_SMOOTHED = 50;

/** What is compared, over what, and which figure of each job is shown. */
export interface CompareSearch {
  jobs?: string[];
  by?: By;
  figure?: string;
  /** Percent of the points that the curves' moving average spans, 0 for none; none given: as the service decides. */
  smooth?: number;
  /** Which parts of their x axes curves show, as `loss:3:9`. */
  zoom?: string[];
}

/** What the page of one race shows. */
export interface RankingsSearch {
  /** Over what it draws how plans learned. */
  by?: By;
  /** Which part of its x axis a figure shows, as `throughput:7:8`. */
  zoom?: string[];
}

export const JOB_TABS = [
  "overview",
  "timeline",
  "links",
  "staleness",
  "plan",
  "attempts",
  "events",
  "logs",
  "spec",
] as const;
export type JobTab = (typeof JOB_TABS)[number];

/** The tabs of a job: only where workers drift are contributions stale. */
export function tabsOf({ drifts }: { drifts: boolean }): JobTab[] {
  return JOB_TABS.filter((name) => name !== "staleness" || drifts);
}

/** What the page of one job shows. */
export interface JobSearch {
  tab?: JobTab;
  step?: number;
  /** The last one, where there are several. */
  to_step?: number;
  from_ns?: number;
  to_ns?: number;
  party?: string;
  /** The one that is shown, by its number; without: the latest. */
  attempt?: number;
  /** The wait that is explained. */
  why?: string;
  /** The layer that is lit up, by its place in the model. */
  layer?: number;
  /** Of a timeline: the ends of what is measured, in ns on the attempt's clock. */
  measure?: [number, number];
  /** Of overview and staleness: which parts of their x axes figures show, as `loss:3:9`. */
  zoom?: string[];
  /** What is looked for in a log. */
  find?: string;
  /** The links that are drawn; none: the first ones. */
  interfaces?: string[];
  /** The kinds of events that are listed; none: all. */
  kinds?: string[];
  /** What the speed-up is measured against, where it is not the job's own baseline. */
  baseline?: string;
}

export const STARTS = ["cluster", "own", "digits"] as const;
export type Start = (typeof STARTS)[number];

/** What fills the launch form: a job, a template, or one of the ways to begin. */
export interface LaunchSearch {
  from?: string;
  /** The step of that job's checkpoint with which the new one begins. */
  begin?: number;
  template?: string;
  start?: Start;
  /** Whether strategies race, where a job or a template fills the form. */
  race?: boolean;
  /** The race (its id) that is run again, and what of it is changed; `member`: the strategy that races, too. */
  again?: string;
  member?: string;
  rate?: string;
  workers?: number;
  batch?: number;
  rounds?: number;
  fidelity?: "rehearse";
}

type Raw = Record<string, unknown>;

export function parseQuery(query: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(query));
}

/** Lists become comma-separated, undefined and empty values vanish. */
export function formatQuery(search: Raw): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(search)) {
    const text = Array.isArray(value) ? value.join(",") : value === undefined ? "" : String(value);
    if (text !== "") params.set(key, text);
  }
  const query = params.toString().replaceAll("%2C", ",");
  return query && `?${query}`;
}

/** How a route checks its address by `check`. The router lays what it answers over what stood there: whatever is only left
 * out would come back as it was, and so would go on to pages that do not expect it, and to every later address. */
export function nothingBut<C extends (raw: Raw) => object>(check: C): C {
  const gone = (raw: Raw) => Object.fromEntries(Object.keys(raw).map((key) => [key, undefined]));
  return ((raw: Raw) => ({ ...gone(raw), ...check(raw) })) as C;
}

export function jobsSearch(raw: Raw): JobsSearch {
  return compact({
    state: stateOf(raw.state),
    strategy: word(raw.strategy),
    model: word(raw.model),
    text: word(raw.text),
    tag: word(raw.tag),
    owner: word(raw.owner),
    tagged: flag(raw.tagged),
    race: word(raw.race),
    raced: flag(raw.raced),
    sort: sortOf(raw.sort),
    group: GROUPS.find((name) => name === raw.group),
    open: word(raw.open),
    selected: list(raw.selected),
  });
}

/** Only what says which jobs are listed. */
export function jobsFilter({
  sort: _,
  group: __,
  open: ___,
  selected: ____,
  ...filter
}: JobsSearch): JobsFilter {
  return filter;
}

/** The address of the list without filters. What is selected stays, unless it is selected in a group: without groups much
 * of it might not be in view. */
export function clearedJobs({ group, selected }: JobsSearch): JobsSearch {
  return group ? {} : compact({ selected });
}

export function raceSearch(raw: Raw): RaceSearch {
  const [why, job] = [waitOf(raw.why), word(raw.why_job)];
  return compact({
    jobs: list(raw.jobs),
    step: whole(raw.step),
    ...windowOf(raw),
    ...(why && job && { why, why_job: job }),
  });
}

export function compareSearch(raw: Raw): CompareSearch {
  const by = BYS.find((name) => name === raw.by);
  const smooth = whole(raw.smooth);
  return compact({
    jobs: list(raw.jobs),
    by,
    figure: word(raw.figure),
    smooth: smooth !== undefined && smooth >= 0 && smooth <= MOST_SMOOTHED ? smooth : undefined,
    zoom: list(raw.zoom),
  });
}

export function rankingsSearch(raw: Raw): RankingsSearch {
  const by = BYS.find((name) => name === raw.by);
  return compact({ by, zoom: list(raw.zoom) });
}

export function jobSearch(raw: Raw): JobSearch {
  const tab = JOB_TABS.find((name) => name === raw.tab);
  return compact({
    tab,
    step: whole(raw.step),
    to_step: toStep(whole(raw.step), whole(raw.to_step)),
    party: word(raw.party),
    attempt: whole(raw.attempt),
    why: waitOf(raw.why),
    layer: whole(raw.layer),
    measure: pairOf(raw.measure),
    zoom: list(raw.zoom),
    find: text(raw.find),
    interfaces: list(raw.interfaces),
    kinds: list(raw.kinds),
    baseline: word(raw.baseline),
    ...windowOf(raw),
  });
}

export function launchSearch(raw: Raw): LaunchSearch {
  const [from, template] = [word(raw.from), word(raw.template)];
  const race = word(raw.race) === "true" || undefined;
  const again = word(raw.again);
  if (again !== undefined) {
    const fidelity = word(raw.fidelity) === "rehearse" ? "rehearse" : undefined;
    const [workers, batch, rounds] = [raw.workers, raw.batch, raw.rounds].map(whole);
    const [member, rate] = [word(raw.member), word(raw.rate)];
    return compact({ again, member, rate, workers, batch, rounds, fidelity });
  }
  if (from !== undefined) return compact({ from, begin: whole(raw.begin), race });
  if (template !== undefined) return compact({ template, race });
  return compact({ start: STARTS.find((name) => name === raw.start), race });
}

function stateOf(value: unknown): JobState | undefined {
  const name = word(value);
  return JOB_STATES.find((state) => state === name);
}

function sortOf(value: unknown): string | undefined {
  const sort = word(value);
  return sort !== undefined && isSort(sort) ? sort : undefined;
}

function flag(value: unknown): boolean | undefined {
  const text = word(value);
  return text === "true" ? true : text === "false" ? false : undefined;
}

function toStep(step: number | undefined, to: number | undefined): number | undefined {
  return step !== undefined && to !== undefined && to > step ? to : undefined;
}

function windowOf(raw: Raw): { from_ns?: number; to_ns?: number } {
  const [from, to] = [whole(raw.from_ns), whole(raw.to_ns)];
  return from !== undefined && to !== undefined && to > from ? { from_ns: from, to_ns: to } : {};
}

function pairOf(value: unknown): [number, number] | undefined {
  const [from, to, ...more] = (Array.isArray(value) ? value : String(value ?? "").split(",")).map(whole);
  return from !== undefined && to !== undefined && more.length === 0 ? [from, to] : undefined;
}

function waitOf(value: unknown): string | undefined {
  const wait = parseWait(word(value));
  return wait && formatWait(wait);
}

function word(value: unknown): string | undefined {
  const text = value === undefined || value === null ? "" : String(value).trim();
  return text === "" ? undefined : text;
}

/** As it was typed: a space at its end is looked for, too. */
function text(value: unknown): string | undefined {
  return value === undefined || value === null || value === "" ? undefined : String(value);
}

function whole(value: unknown): number | undefined {
  const text = word(value);
  const number = text === undefined ? Number.NaN : Number(text);
  return Number.isSafeInteger(number) ? number : undefined;
}

function list(value: unknown): string[] | undefined {
  const items = Array.isArray(value) ? value.map(String) : (word(value)?.split(",") ?? []);
  const named = [...new Set(items.map((item) => item.trim()).filter(Boolean))];
  return named.length > 0 ? named : undefined;
}

function compact<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, entry]) => entry !== undefined)) as T;
}
