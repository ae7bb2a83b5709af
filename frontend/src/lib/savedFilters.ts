import type { JobsSearch } from "./search";

/** Filters, order and groups of the list of jobs under a name. This browser remembers them. */
export interface SavedFilter {
  name: string;
  search: JobsSearch;
}

const KEY = "trainyard.jobs.filters";
export const MOST_SAVED = 50;
export const LONGEST_NAME = 60;

/** What is stored, by name; nothing of what cannot be read. `check` makes of any object what the list understands. */
export function readFilters(
  text: string | null,
  check: (raw: Record<string, unknown>) => JobsSearch,
): SavedFilter[] {
  try {
    const found: unknown = JSON.parse(text ?? "[]");
    if (!Array.isArray(found)) return [];
    return found
      .filter(
        (entry) =>
          typeof entry?.name === "string" && typeof entry?.search === "object" && entry.search !== null,
      )
      .map((entry) => ({ name: entry.name, search: check(entry.search) }));
  } catch {
    return [];
  }
}

/** With one more, in place of another of that name; the oldest go where there are too many. */
export function withFilter(filters: SavedFilter[], name: string, search: JobsSearch): SavedFilter[] {
  const others = filters.filter((filter) => filter.name !== name);
  return [...others, { name, search }].slice(-MOST_SAVED);
}

/** Without the one of that name. */
export function withoutFilter(filters: SavedFilter[], name: string): SavedFilter[] {
  return filters.filter((filter) => filter.name !== name);
}

/** From and to this browser's memory; where it has none (a private window may forbid it), for this visit only. */
export const browserMemory = {
  load(): string | null {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;
    }
  },
  save(filters: SavedFilter[]): void {
    try {
      localStorage.setItem(KEY, JSON.stringify(filters));
    } catch {
      // What was saved stays until the page is closed.
    }
  },
};
