import { useQuery, useQueryClient } from "@tanstack/react-query";
import { memoryQuery } from "../api/queries";
import type { JobSpec } from "../api/types";

/** What a worker of the job would hold in memory, for who asks: it takes seconds, ends where they leave, and can be cancelled. */
export function usePrediction(spec: JobSpec) {
  const asked = memoryQuery(spec);
  const queries = useQueryClient();
  const { data, error, isFetching, refetch } = useQuery(asked);
  return {
    data,
    error,
    pending: isFetching,
    onAsk: () => void refetch(),
    onCancel: () => void queries.cancelQueries({ queryKey: asked.queryKey }),
  };
}
