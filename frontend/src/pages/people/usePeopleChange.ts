import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { sessionQuery } from "../../access/session";

/** Changes something about people, and asks again for all that is shown of them, and for what one may oneself: it may be
 * one's own role, or token. `failed` heads what the service says. */
export function usePeopleChange<Given, Answer = unknown>(
  change: (given: Given) => Promise<Answer>,
  failed: string,
) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onError: (error) => notifications.show({ color: "red", title: failed, message: error.message }),
    onSettled: async () => {
      await queries.refetchQueries(sessionQuery);
      await queries.invalidateQueries({ queryKey: ["people"] });
    },
  });
}
