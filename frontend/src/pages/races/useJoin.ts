import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { client, unwrap } from "../../api/client";
import { rankingsQuery } from "../../api/raceQueries";
import type { RaceSpec, RaceView } from "../../api/types";
import type { Member } from "../../lib/raceForm";

type Sent = NonNullable<RaceSpec["members"]>[number];

/** Lets one more race. */
export function useJoin(race: RaceView) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (member: Member) => {
      const params = { path: { race_id: race.id } };
      const body = { members: [member as Sent] };
      return unwrap(client.POST("/api/v1/races/{race_id}/members", { params, body }));
    },
    onSuccess: async (changed) => {
      const { queryKey } = rankingsQuery(race.id);
      await queries.cancelQueries({ queryKey }); // An answer from before would take the member away again.
      queries.setQueryData(queryKey, changed);
    },
    onError: (error) => notifications.show({ color: "red", title: "Not added", message: error.message }),
  });
}
