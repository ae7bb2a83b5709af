import { ActionIcon, Button, Group, Modal, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { IconTrash } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { ApiProblem, answered, client } from "../../api/client";
import { racesQuery, rankingsQuery } from "../../api/raceQueries";
import type { RaceSummary } from "../../api/types";

interface Props {
  /** One that has ended: the service forgets no other. */
  race: RaceSummary;
  /** Whether it stands in a row of a list. */
  small?: boolean;
  /** Before what is known of it is forgotten: its page must not ask for it again. */
  onDeleted?: () => Promise<void>;
}

/** Forgets a race after asking; its jobs stay. */
export function DeleteRace({ race, small, onDeleted }: Props) {
  const [asking, { open, close }] = useDisclosure(false);
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: async () => {
      await deleted(race.id);
      await onDeleted?.();
      queries.removeQueries({ queryKey: rankingsQuery(race.id).queryKey });
      await queries.invalidateQueries({ queryKey: racesQuery.queryKey });
    },
    onError: (error) => notifications.show({ color: "red", title: "Not deleted", message: error.message }),
    onSettled: close,
  });
  return (
    <>
      {small ? (
        <ActionIcon
          color="red"
          variant="subtle"
          aria-label={`Delete ${race.name}`}
          onClick={open}
          data-testid={`delete-${race.id}`}
        >
          <IconTrash size={16} />
        </ActionIcon>
      ) : (
        <Button
          color="red"
          variant="light"
          leftSection={<IconTrash size={16} />}
          onClick={open}
          data-testid="delete-race"
        >
          Delete
        </Button>
      )}
      <Modal opened={asking} onClose={close} title={`Delete the race ${race.name}?`} centered>
        <Text size="sm">
          {race.name} (id {race.id}): its rankings are removed for good, and who raced whom. Its jobs stay,
          with all that was recorded of them: delete those in the list of jobs.
        </Text>
        <Group justify="flex-end" gap="xs" mt="md">
          <Button variant="default" onClick={close} data-autofocus>
            Keep it
          </Button>
          <Button
            color="red.9"
            loading={remove.isPending}
            onClick={() => remove.mutate()}
            data-testid="delete-race-confirm"
          >
            Delete the race
          </Button>
        </Group>
      </Modal>
    </>
  );
}

/** Somebody else may have been faster. */
async function deleted(id: string): Promise<void> {
  try {
    await answered(client.DELETE("/api/v1/races/{race_id}", { params: { path: { race_id: id } } }));
  } catch (error) {
    if (!(error instanceof ApiProblem && error.status === 404)) throw error;
  }
}
