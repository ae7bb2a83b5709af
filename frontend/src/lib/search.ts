import type { JobState } from "../api/types";
import { STATES } from "./jobState";
import { formatWait, parseWait } from "./why";

// The view's state in the address: plain, readable query strings that survive copying.

/** Filters of the list of jobs. */
export interface JobsSearch {
  state?: JobState;
  strategy?: string;
  model?: string;
  text?: string;
}

/** What the race shows. No jobs: the newest race. No step: the latest, as it comes. */
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

/** What is compared, over what, and which figure of each job is shown. */
export interface CompareSearch {
  jobs?: string[];
  by?: By;
  figure?: string;
}

export const JOB_TABS = [
  "overview",
  "timeline",
  "links",
  "plan",
  "attempts",
  "events",
  "logs",
  "spec",
] as const;
export type JobTab = (typeof JOB_TABS)[number];

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
  /** The links that are drawn; none: the first ones. */
  interfaces?: string[];
  /** The kinds of events that are listed; none: all. */
  kinds?: string[];
  /** What the speed-up is measured against, where it is not the job's own baseline. */
  baseline?: string;
}

/** What fills the launch form: a job, or a template. */
export interface LaunchSearch {
  from?: string;
  template?: string;
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

export function jobsSearch(raw: Raw): JobsSearch {
  return compact({
    state: stateOf(raw.state),
    strategy: word(raw.strategy),
    model: word(raw.model),
    text: word(raw.text),
  });
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
  return compact({ jobs: list(raw.jobs), by, figure: word(raw.figure) });
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
    interfaces: list(raw.interfaces),
    kinds: list(raw.kinds),
    baseline: word(raw.baseline),
    ...windowOf(raw),
  });
}

export function launchSearch(raw: Raw): LaunchSearch {
  const from = word(raw.from);
  return compact({ from, template: from === undefined ? word(raw.template) : undefined });
}

function stateOf(value: unknown): JobState | undefined {
  const name = word(value);
  return name !== undefined && name in STATES ? (name as JobState) : undefined;
}

function toStep(step: number | undefined, to: number | undefined): number | undefined {
  return step !== undefined && to !== undefined && to > step ? to : undefined;
}

function windowOf(raw: Raw): { from_ns?: number; to_ns?: number } {
  const [from, to] = [whole(raw.from_ns), whole(raw.to_ns)];
  return from !== undefined && to !== undefined && to > from ? { from_ns: from, to_ns: to } : {};
}

function waitOf(value: unknown): string | undefined {
  const wait = parseWait(word(value));
  return wait && formatWait(wait);
}

function word(value: unknown): string | undefined {
  const text = value === undefined || value === null ? "" : String(value).trim();
  return text === "" ? undefined : text;
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
