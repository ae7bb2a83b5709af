import { type QueryKey, type UseQueryOptions, useQuery, useQueryClient } from "@tanstack/react-query";

/** What takes seconds, for who asks: it ends where they leave, and can be cancelled. The answer, and what an `AskingButton` needs. */
export function useAsked<T, K extends QueryKey>(asked: UseQueryOptions<T, Error, T, K>) {
  const queries = useQueryClient();
  const { data, error, isFetching, refetch } = useQuery(asked);
  const asking = {
    pending: isFetching,
    error,
    onAsk: () => void refetch(),
    onCancel: () => void queries.cancelQueries({ queryKey: asked.queryKey }),
  };
  return { found: data, asking };
}
