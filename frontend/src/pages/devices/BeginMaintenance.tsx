import { Button, Checkbox, Group, MultiSelect, TextInput } from "@mantine/core";
import { type FormEvent, useState } from "react";
import { client, unwrap } from "../../api/client";
import type { Device } from "../../api/types";
import { useShareChange } from "./useShareChange";

/** Takes devices out of use, at once or from a moment on. */
export function BeginMaintenance({ devices }: { devices: Device[] }) {
  const [chosen, setChosen] = useState<string[]>([]);
  const [at, setAt] = useState("");
  const [until, setUntil] = useState("");
  const [room, setRoom] = useState(false);
  const [note, setNote] = useState("");
  const begin = useShareChange(
    () =>
      unwrap(
        client.POST("/api/v1/maintenance", {
          body: {
            devices: chosen.length > 0 ? chosen : null,
            begins_at: at ? new Date(at).toISOString() : null,
            ends_at: until ? new Date(until).toISOString() : null,
            makes_room: room,
            note: note.trim() || null,
          },
        }),
      ),
    "Nothing is taken out of use",
  );
  const submit = (event: FormEvent) => {
    event.preventDefault();
    begin.mutate(undefined, {
      onSuccess: () => {
        setChosen([]);
        setAt("");
        setUntil("");
        setNote("");
      },
    });
  };
  return (
    <form onSubmit={submit}>
      <Group gap="xs" align="flex-end" mt="sm">
        <MultiSelect
          size="xs"
          miw={200}
          label="Take out of use"
          placeholder={chosen.length > 0 ? undefined : "all of this server"}
          data={devices.map(({ name }) => name)}
          value={chosen}
          onChange={setChosen}
          searchable
          clearable
          data-testid="maintenance-devices"
        />
        <TextInput
          size="xs"
          type="datetime-local"
          label="From (empty: at once)"
          value={at}
          onChange={(event) => setAt(event.currentTarget.value)}
          data-testid="maintenance-at"
        />
        <TextInput
          size="xs"
          type="datetime-local"
          label="Until (empty: open)"
          value={until}
          onChange={(event) => setUntil(event.currentTarget.value)}
          data-testid="maintenance-until"
        />
        <TextInput
          size="xs"
          label="What for"
          placeholder="a new driver"
          maxLength={500}
          value={note}
          onChange={(event) => setNote(event.currentTarget.value)}
        />
        <Checkbox
          size="xs"
          mb={6}
          label="Jobs with checkpoints make room"
          checked={room}
          onChange={(event) => setRoom(event.currentTarget.checked)}
        />
        <Button
          type="submit"
          size="xs"
          variant="light"
          loading={begin.isPending}
          data-testid="begin-maintenance"
        >
          Begin
        </Button>
      </Group>
    </form>
  );
}
