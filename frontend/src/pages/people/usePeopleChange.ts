import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";

/** Changes something about people, and asks again for all that is shown of them; `failed` heads what the service says. */
export function usePeopleChange<Given, Answer = unknown>(
  change: (given: Given) => Promise<Answer>,
  failed: string,
) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onError: (error) => notifications.show({ color: "red", title: failed, message: error.message }),
    onSettled: () => queries.invalidateQueries({ queryKey: ["people"] }),
  });
}
