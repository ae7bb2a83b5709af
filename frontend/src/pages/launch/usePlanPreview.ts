import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { ApiProblem, client, unwrap } from "../../api/client";
import type { JobSpec } from "../../api/types";
import { INCOMPLETE, ownCode } from "../../lib/ownCode";

const BUSY_MS = 10_000;

/**
 * The plan that would follow from the form as it is, asked for when typing pauses. A person's own code is run for
 * it only as it was when `preview` was last called: a half typed path may name something else.
 */
export function usePlanPreview(spec: Record<string, unknown>) {
  const [released, setReleased] = useState(() => ownCode(spec));
  // A name is asked for at submission; a plan does not need one.
  const nameless = JSON.stringify({ ...spec, name: "preview" });
  const [settled] = useDebouncedValue(nameless, 400);
  const held = (text: string) => {
    const code = ownCode(JSON.parse(text));
    return code !== null && (code === INCOMPLETE || code !== released);
  };
  const query = useQuery({
    queryKey: ["plan-preview", settled],
    queryFn: ({ signal }) =>
      unwrap(client.POST("/api/v1/plans", { body: JSON.parse(settled) as JobSpec, signal })),
    placeholderData: keepPreviousData,
    enabled: !held(settled),
    // The service describes a few models at a time, and says when it has room again.
    retry: (failures, error) => error instanceof ApiProblem && error.status === 503 && failures < 12,
    retryDelay: BUSY_MS,
    staleTime: 60_000,
  });
  // What a refused change was made in: an error has no data of its own.
  const last = useRef(query.data);
  if (query.data) last.current = query.data;
  return {
    ...query,
    last: last.current,
    outdated: settled !== nameless || query.isPlaceholderData,
    held: held(nameless),
    preview: () => setReleased(ownCode(spec)),
  };
}
