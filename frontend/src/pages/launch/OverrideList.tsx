import { ActionIcon, Group, Stack, Text } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import type { Override } from "../../api/types";
import { type Errors, sentence } from "../../form/errors";
import { phrase } from "../../lib/overrides";

interface Props {
  overrides: Override[];
  /** What the service says of each; empty while it has not answered. */
  notes: string[];
  /** What was refused, by the override's place. */
  errors: Map<number, Errors>;
  onRemove: (place: number) => void;
}

/** The job's overrides in their order: what each changes, what is wrong with it, and the way to be rid of it. */
export function OverrideList({ overrides, notes, errors, onRemove }: Props) {
  return (
    <Stack gap={2} tabIndex={-1} data-testid="plan-overrides">
      {overrides.map((one, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: their place is what overrides are known by
        <div key={place}>
          <Group gap={4} wrap="nowrap">
            <ActionIcon
              size="xs"
              variant="subtle"
              color="gray"
              aria-label={`Remove overrides.${place}`}
              data-testid={`remove-override-${place}`}
              onClick={(event) => {
                // The button goes, and the focus must not go with it.
                event.currentTarget.closest<HTMLElement>("[data-testid=plan-overrides]")?.focus();
                onRemove(place);
              }}
            >
              <IconX size={12} />
            </ActionIcon>
            <Text size="xs" c="dimmed" data-testid="plan-note" style={{ overflowWrap: "anywhere" }}>
              {notes[place] ?? `overrides.${place}: ${phrase(one)}`}
            </Text>
          </Group>
          {errors.get(place)?.map((error) => (
            <Text key={error.field} size="xs" c="red" data-testid={`refused-override-${place}`}>
              {sentence(error)}
            </Text>
          ))}
        </div>
      ))}
    </Stack>
  );
}
