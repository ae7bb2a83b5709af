import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { client, unwrap } from "../../api/client";
import type { JobSpec } from "../../api/types";

/** The plan that would follow from the form as it is, asked for when typing pauses. */
export function usePlanPreview(spec: Record<string, unknown>) {
  // A name is asked for at submission; a plan does not need one.
  const nameless = JSON.stringify({ ...spec, name: "preview" });
  const [settled] = useDebouncedValue(nameless, 400);
  const query = useQuery({
    queryKey: ["plan-preview", settled],
    queryFn: ({ signal }) =>
      unwrap(client.POST("/api/v1/plans", { body: JSON.parse(settled) as JobSpec, signal })),
    placeholderData: keepPreviousData,
    retry: false,
    staleTime: 60_000,
  });
  return { ...query, outdated: settled !== nameless || query.isPlaceholderData };
}
