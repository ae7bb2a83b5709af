import { Button, Checkbox, Group, MultiSelect, TextInput } from "@mantine/core";
import { client, unwrap } from "../../api/client";
import type { Device } from "../../api/types";
import { useAddForm } from "../../components/useAddForm";
import { useShareChange } from "./useShareChange";

const ALL = "all of this server";
const EMPTY = { devices: [] as string[], at: "", until: "", room: false, note: "" };

/** Takes devices out of use, at once or from a moment on. */
export function BeginMaintenance({ devices }: { devices: Device[] }) {
  const begin = useShareChange(
    (given: typeof EMPTY) =>
      unwrap(
        client.POST("/api/v1/maintenance", {
          body: {
            devices: given.devices.includes(ALL) ? null : given.devices,
            begins_at: given.at ? new Date(given.at).toISOString() : null,
            ends_at: given.until ? new Date(given.until).toISOString() : null,
            makes_room: given.room,
            note: given.note.trim() || null,
          },
        }),
      ),
    "Nothing is taken out of use",
  );
  const { fields, put, typed, submit } = useAddForm(EMPTY, ["devices", "at", "until", "note"], begin);
  return (
    <form onSubmit={submit}>
      <Group gap="xs" align="flex-end" mt="sm">
        <MultiSelect
          size="xs"
          miw={200}
          label="Take out of use"
          placeholder={fields.devices.length > 0 ? undefined : "devices"}
          data={[ALL, ...devices.map(({ name }) => name)]}
          value={fields.devices}
          onChange={(chosen) =>
            put({ devices: chosen.at(-1) === ALL ? [ALL] : chosen.filter((id) => id !== ALL) })
          }
          searchable
          clearable
          data-testid="maintenance-devices"
        />
        <TextInput
          size="xs"
          type="datetime-local"
          label="From (empty: at once)"
          {...typed("at")}
          data-testid="maintenance-at"
        />
        <TextInput
          size="xs"
          type="datetime-local"
          label="Until (empty: open)"
          {...typed("until")}
          data-testid="maintenance-until"
        />
        <TextInput size="xs" label="What for" placeholder="a new driver" maxLength={500} {...typed("note")} />
        <Checkbox
          size="xs"
          mb={6}
          label="Jobs with checkpoints make room"
          checked={fields.room}
          onChange={(event) => put({ room: event.currentTarget.checked })}
        />
        <Button
          type="submit"
          size="xs"
          variant="light"
          loading={begin.isPending}
          disabled={fields.devices.length === 0}
          data-testid="begin-maintenance"
        >
          Begin
        </Button>
      </Group>
    </form>
  );
}
