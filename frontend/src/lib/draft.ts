import { isObject } from "../form/schema";
import type { RaceForm } from "./raceForm";

/** What Launch's form holds. A specification has the names of secrets and never their values, so a draft has none. */
export interface Draft {
  spec: Record<string, unknown>;
  /** Who races, also while one job is launched. */
  form: RaceForm;
  racing: boolean;
}

/** Where a draft is kept: each address of the form has its own, and so has each person who signs in. */
export function draftKey(user: string | null, address: string): string {
  return `trainyard.draft ${user ?? ""} ${address}`;
}

/** What is kept of a form that began as `begun`; null where nobody has changed it. */
export function draftText(content: Draft, begun: Draft): string | null {
  const text = JSON.stringify(content);
  return text === JSON.stringify(begun) ? null : text;
}

/** A draft as it was kept; undefined where there is none, or none that the form could show. */
export function readDraft(text: string | null): Draft | undefined {
  try {
    const found: unknown = JSON.parse(text ?? "null");
    if (!isObject(found) || !isObject(found.spec) || !isObject(found.form)) return undefined;
    const { members, rates, rounds } = found.form;
    if (!Array.isArray(members) || !Array.isArray(rates) || typeof rounds !== "number") return undefined;
    return found as unknown as Draft;
  } catch {
    return undefined;
  }
}

/** From and to the memory of this tab; where the browser has none, a draft lasts as long as the form is shown. */
export const tabMemory = {
  load(key: string): string | null {
    try {
      return sessionStorage.getItem(key);
    } catch {
      return null;
    }
  },
  /** Null forgets it. */
  save(key: string, text: string | null): void {
    try {
      if (text === null) sessionStorage.removeItem(key);
      else sessionStorage.setItem(key, text);
    } catch {
      // What was typed stays until the form is left.
    }
  },
};

/** Keeps a form's draft under `key` while the form differs from `begun`. `fresh`: what the form shows stands in place of
 * an earlier draft, which stays until somebody changes what is shown. */
export function draftKeeper(key: string, begun: Draft, fresh: boolean) {
  let earlier = fresh;
  return {
    /** Whether the form differs from what it began with. */
    keep(content: Draft): boolean {
      const text = draftText(content, begun);
      if (text !== null) earlier = false;
      if (!earlier) tabMemory.save(key, text);
      return text !== null;
    },
    drop(): void {
      if (!earlier) tabMemory.save(key, null);
    },
  };
}
