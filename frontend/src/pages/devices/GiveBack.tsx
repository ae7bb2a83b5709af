import { useQuery } from "@tanstack/react-query";
import { client, unwrap } from "../../api/client";
import { maintenanceQuery } from "../../api/shareQueries";
import type { Maintenance } from "../../api/types";
import { keptBy } from "../../lib/devices";
import { ConfirmButton } from "../people/ConfirmButton";
import { useShareChange } from "./useShareChange";

/** Ends maintenance, after saying what follows: another one may keep the same devices. */
export function GiveBack({ maintenance }: { maintenance: Maintenance }) {
  const { id, devices, node } = maintenance;
  const others = keptBy(maintenance, useQuery(maintenanceQuery).data ?? []);
  const end = useShareChange(
    () =>
      unwrap(
        client.DELETE("/api/v1/maintenance/{maintenance_id}", { params: { path: { maintenance_id: id } } }),
      ),
    "It goes on",
  );
  const named = devices?.join(", ") ?? (node ? `all devices of ${node}` : "all devices of this server");
  return (
    <ConfirmButton
      label="Give back"
      about={named}
      title={`Give ${named} back?`}
      keep="Keep them out of use"
      pending={end.isPending}
      onConfirm={() => end.mutateAsync(undefined)}
    >
      {others
        ? `Other maintenance keeps some of them out of use: ${others}. Jobs that wait may start on the rest at once.`
        : "Jobs that wait may start there at once."}
    </ConfirmButton>
  );
}
