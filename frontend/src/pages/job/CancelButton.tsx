import { Button, Group, Modal, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { IconPlayerStop } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { client, unwrap } from "../../api/client";
import { jobQuery } from "../../api/queries";
import type { Job } from "../../api/types";
import { isStoppable } from "../../lib/jobState";

/** Ends a job, after asking: hours of training may be behind one wrong click. */
export function CancelButton({ job }: { job: Job }) {
  const queries = useQueryClient();
  const [asking, { open, close }] = useDisclosure(false);
  const cancel = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/jobs/{job_id}/cancel", { params: { path: { job_id: job.id } } })),
    onSuccess: (updated) => queries.setQueryData(jobQuery(job.id).queryKey, updated),
    onError: (error) => notifications.show({ color: "red", title: "Not cancelled", message: error.message }),
    onSettled: close,
  });
  return (
    <>
      <Button
        color="red"
        variant="light"
        leftSection={<IconPlayerStop size={16} />}
        disabled={!isStoppable(job.state)}
        onClick={open}
        data-testid="cancel"
      >
        Cancel
      </Button>
      <Modal opened={asking} onClose={close} title={`Cancel ${job.name}?`} centered>
        <Text size="sm">
          {job.started_at
            ? "Its processes are stopped, and it cannot be continued. What it has recorded until now stays."
            : "It has not started yet, and will not."}
        </Text>
        <Group justify="flex-end" gap="xs" mt="md">
          <Button variant="default" onClick={close} data-autofocus>
            Let it run
          </Button>
          <Button
            color="red"
            loading={cancel.isPending}
            onClick={() => cancel.mutate()}
            data-testid="cancel-confirm"
          >
            Cancel the job
          </Button>
        </Group>
      </Modal>
    </>
  );
}
