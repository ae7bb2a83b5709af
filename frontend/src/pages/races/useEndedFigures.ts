import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import type { RaceView } from "../../api/types";

/** Asks for the figures of a race once more when what its tables say at its end has come. Notices tell of jobs, and a race
 * ends a moment after its last one; a figure that takes long to draw is asked for rarely, and would stay at an earlier
 * round beside tables of the last. */
export function useEndedFigures(race: RaceView | undefined) {
  const queries = useQueryClient();
  const shown = useRef<RaceView["rankings"] | null>(null);
  const id = race?.id;
  const running = race?.state === "running";
  const rankings = race?.rankings;
  useEffect(() => {
    if (id === undefined || rankings === undefined) return;
    const changed = shown.current !== null && (running || shown.current !== rankings);
    shown.current = running ? [] : rankings;
    if (running || !changed) return;
    for (const figure of ["race figure", "race learning", "best"])
      void queries.invalidateQueries({ queryKey: [figure, id] });
  }, [queries, id, running, rankings]);
}
