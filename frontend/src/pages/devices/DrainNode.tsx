import { Checkbox, TextInput } from "@mantine/core";
import { useState } from "react";
import { client, unwrap } from "../../api/client";
import type { ClusterNode } from "../../api/types";
import { ConfirmButton } from "../people/ConfirmButton";
import { useShareChange } from "./useShareChange";

/** Takes a whole node out of use, after asking until when, and who makes room. */
export function DrainNode({ node: { id, name } }: { node: ClusterNode }) {
  const [until, setUntil] = useState("");
  const [room, setRoom] = useState(false);
  const drain = useShareChange(
    () =>
      unwrap(
        client.POST("/api/v1/maintenance", {
          body: {
            node: String(id),
            ends_at: until ? new Date(until).toISOString() : null,
            makes_room: room,
          },
        }),
      ),
    "It stays in use",
  );
  return (
    <ConfirmButton
      label="Drain"
      about={name}
      title={`Take all devices of ${name} out of use?`}
      keep="Keep it in use"
      pending={drain.isPending}
      onConfirm={() => drain.mutateAsync(undefined)}
    >
      No job starts there from now on. Jobs that run there stay until they have ended.
      <Checkbox
        size="xs"
        mt="sm"
        label="Those with checkpoints make room at once"
        checked={room}
        onChange={(event) => setRoom(event.currentTarget.checked)}
      />
      <TextInput
        size="xs"
        mt="sm"
        type="datetime-local"
        label="Back by itself at (empty: when somebody ends it)"
        value={until}
        onChange={(event) => setUntil(event.currentTarget.value)}
        data-testid="drain-until"
      />
    </ConfirmButton>
  );
}
