import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { devicesQuery, queueQuery } from "../../api/queries";
import { maintenanceQuery, nodesQuery, projectsQuery } from "../../api/shareQueries";

/** Changes who gets which devices, and asks again for what is shown of them. `failed` heads what the service says. */
export function useShareChange<Given, Answer>(change: (given: Given) => Promise<Answer>, failed: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onError: (error) => notifications.show({ color: "red", title: failed, message: error.message }),
    onSettled: () =>
      Promise.all(
        [maintenanceQuery, projectsQuery, nodesQuery, devicesQuery, queueQuery].map(({ queryKey }) =>
          queries.invalidateQueries({ queryKey }),
        ),
      ),
  });
}
