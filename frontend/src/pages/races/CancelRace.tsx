import { useQueryClient } from "@tanstack/react-query";
import { client, unwrap } from "../../api/client";
import { rankingsQuery } from "../../api/raceQueries";
import type { RaceView } from "../../api/types";
import { CancelButton } from "../../components/CancelButton";

/** Ends a race. */
export function CancelRace({ race }: { race: RaceView }) {
  const queries = useQueryClient();
  const cancel = async () => {
    const params = { path: { race_id: race.id } };
    await unwrap(client.POST("/api/v1/races/{race_id}/cancel", { params }));
    await queries.invalidateQueries({ queryKey: rankingsQuery(race.id).queryKey });
  };
  return (
    <CancelButton
      what="the race"
      name={race.name}
      text="The job that runs is stopped, and no other one starts. What has ended stays."
      cancel={cancel}
      testId="cancel-race"
    />
  );
}
