import { Button, Group, Modal, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { IconPlayerStop } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { client, unwrap } from "../../api/client";
import { rankingsQuery } from "../../api/queries";
import type { RaceView } from "../../api/types";

/** Ends a race, after asking. */
export function CancelRace({ race }: { race: RaceView }) {
  const queries = useQueryClient();
  const [asking, { open, close }] = useDisclosure(false);
  const cancel = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/races/{race_id}/cancel", { params: { path: { race_id: race.id } } })),
    onSuccess: (updated) => queries.setQueryData(rankingsQuery(race.id).queryKey, updated),
    onError: (error) => notifications.show({ color: "red", title: "Not cancelled", message: error.message }),
    onSettled: close,
  });
  return (
    <>
      <Button
        color="red"
        variant="light"
        leftSection={<IconPlayerStop size={16} />}
        onClick={open}
        data-testid="cancel-race"
      >
        Cancel
      </Button>
      <Modal opened={asking} onClose={close} title={`Cancel ${race.name}?`} centered>
        <Text size="sm">The job that runs is stopped, and no other one starts. What has ended stays.</Text>
        <Group justify="flex-end" gap="xs" mt="md">
          <Button variant="default" onClick={close} data-autofocus>
            Let it run
          </Button>
          <Button
            color="red"
            loading={cancel.isPending}
            onClick={() => cancel.mutate()}
            data-testid="cancel-race-confirm"
          >
            Cancel the race
          </Button>
        </Group>
      </Modal>
    </>
  );
}
