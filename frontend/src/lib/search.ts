import type { JobState } from "../api/types";
import { STATES } from "./jobState";

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
}

export const JOB_TABS = ["overview", "timeline", "links", "plan", "logs", "spec"] as const;
export type JobTab = (typeof JOB_TABS)[number];

/** What the page of one job shows. */
export interface JobSearch {
  tab?: JobTab;
  step?: number;
  from_ns?: number;
  to_ns?: number;
  party?: string;
}

/** The job that fills the launch form. */
export interface LaunchSearch {
  from?: string;
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
  return compact({ jobs: list(raw.jobs), step: whole(raw.step) });
}

export function jobSearch(raw: Raw): JobSearch {
  const [from, to] = [whole(raw.from_ns), whole(raw.to_ns)];
  const range = from !== undefined && to !== undefined && to > from ? { from_ns: from, to_ns: to } : {};
  const tab = JOB_TABS.find((name) => name === raw.tab);
  return compact({ tab, step: whole(raw.step), party: word(raw.party), ...range });
}

export function launchSearch(raw: Raw): LaunchSearch {
  return compact({ from: word(raw.from) });
}

function stateOf(value: unknown): JobState | undefined {
  const name = word(value);
  return name !== undefined && name in STATES ? (name as JobState) : undefined;
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
