import { Button, Group, Paper, Text } from "@mantine/core";
import type { Override } from "../../api/types";
import type { Errors } from "../../form/errors";
import { refusals } from "../../lib/overrides";
import type { Member } from "../../lib/raceForm";
import { OverrideList } from "./OverrideList";

interface Props {
  overrides: Override[];
  members: Member[];
  errors: Errors;
  onOverrides: (overrides: Override[]) => void;
}

/** The job's own choices for some layers, where strategies race: every one of them is changed by these. */
export function RaceOverrides({ overrides, members, errors, onOverrides }: Props) {
  if (overrides.length === 0) return null;
  const several = overrides.length > 1;
  const some = members.some((member) => member.overrides);
  return (
    <Paper p="sm" data-testid="race-overrides">
      <Group justify="space-between" gap="xs" mb={4}>
        <Text size="sm" fw={600}>
          {several ? `${overrides.length} choices` : "One choice"} for layers, made by hand,{" "}
          {several ? "apply" : "applies"} to every strategy{some && " without choices of its own"}
        </Text>
        <Button
          size="compact-xs"
          variant="light"
          onClick={() => onOverrides([])}
          data-testid="remove-overrides"
        >
          {several ? "Remove all" : "Remove it"}
        </Button>
      </Group>
      <OverrideList
        overrides={overrides}
        notes={[]}
        errors={refusals(errors, [], overrides).by}
        onRemove={(place) => onOverrides(overrides.filter((_, index) => index !== place))}
      />
    </Paper>
  );
}
