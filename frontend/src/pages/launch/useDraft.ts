import { getRouteApi } from "@tanstack/react-router";
import { useCallback, useMemo, useState } from "react";
import { useWho } from "../../access/useWho";
import { type Draft, draftKeeper, draftKey, readDraft, tabMemory } from "../../lib/draft";
import { formatQuery } from "../../lib/search";

const route = getRouteApi("/launch");

interface Drafted {
  /** What the form shows first: the draft where there is one. */
  first: Draft;
  /** Whether that is a draft. */
  found: boolean;
  /** Whether the form differs from what its address fills in. */
  changed: boolean;
  keep: (content: Draft) => void;
  /** What the form begins with once the draft is gone. */
  drop: () => Draft;
}

/** What was typed into the form and not launched yet, kept by its address in this tab: leaving the page, Back and a reload
 * lose nothing. `begun`: what the address fills in; `fresh`: a file was opened, which stands in place of a draft once
 * somebody changes it. */
export function useDraft(begun: Draft, fresh: boolean): Drafted {
  const { user } = useWho();
  const key = draftKey(user, formatQuery({ ...route.useSearch() }));
  const [start] = useState(begun);
  const [found, setFound] = useState(() => (fresh ? undefined : readDraft(tabMemory.load(key))));
  const [changed, setChanged] = useState(found !== undefined);
  const keeper = useMemo(() => draftKeeper(key, start, fresh), [key, start, fresh]);
  const keep = useCallback((content: Draft) => setChanged(keeper.keep(content)), [keeper]);
  const drop = () => {
    keeper.drop();
    setFound(undefined);
    setChanged(false);
    return start;
  };
  return { first: found ?? start, found: found !== undefined, changed, keep, drop };
}
