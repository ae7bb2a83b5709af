import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { ApiProblem, client, unwrap } from "../../api/client";
import type { JobSpec, PlanView } from "../../api/types";
import { ownCode } from "../../lib/ownCode";
import type { useHeldCode } from "./useHeldCode";

const BUSY_MS = 10_000;

/** The plan of a specification, given as text. */
export const planQuery = (text: string) => ({
  queryKey: ["plan-preview", text],
  queryFn: ({ signal }: { signal: AbortSignal }) =>
    unwrap(client.POST("/api/v1/plans", { body: JSON.parse(text) as JobSpec, signal })),
  // The service describes a few models at a time, and says when it has room again.
  retry: (failures: number, error: Error) =>
    error instanceof ApiProblem && error.status === 503 && failures < 12,
  retryDelay: BUSY_MS,
  // Where a person's own code runs, it may be another one when they come back from their editor.
  staleTime: ownCode(JSON.parse(text)) === null ? 60_000 : 0,
});

/** A specification as text, for its plan: a name is asked for at submission; a plan does not need one. */
export function planned(spec: Record<string, unknown>): string {
  return JSON.stringify({ ...spec, name: "preview" });
}

/** The plan that would follow from the form as it is, asked for when typing pauses, and where it is wanted. */
export function usePlanPreview(
  spec: Record<string, unknown>,
  code: ReturnType<typeof useHeldCode>,
  wanted: boolean,
) {
  const nameless = planned(spec);
  const [settled] = useDebouncedValue(nameless, 400);
  const query = useQuery({
    ...planQuery(settled),
    // Another model's plan is no placeholder for this one's.
    placeholderData: (previous: PlanView | undefined, before) =>
      before && sourcesOf(before.queryKey[1] as string) === sourcesOf(settled) ? previous : undefined,
    enabled: wanted && !code.held(JSON.parse(settled)),
  });
  // What a refused change was made in: an error has no data of its own.
  const last = useRef(query.data);
  if (query.data) last.current = query.data;
  const another = sourcesOf(settled) !== sourcesOf(nameless);
  return {
    ...query,
    data: another ? undefined : query.data,
    error: another ? null : query.error,
    last: last.current,
    outdated: settled !== nameless || query.isPlaceholderData,
    held: code.held(spec),
    /** The specification that was planned, as text. */
    asked: settled,
    preview: code.release,
  };
}

function sourcesOf(text: string): string {
  const { model, data } = JSON.parse(text) as Record<string, unknown>;
  return JSON.stringify([model, data]);
}
