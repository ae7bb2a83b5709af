import { Button } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconPlayerRecord } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { client, unwrap } from "../../api/client";
import type { Job } from "../../api/types";

const STEPS = 20;

/** Keeps every event of the next steps, for a look at what happens right now. */
export function RecordButton({ job }: { job: Job }) {
  const record = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/jobs/{job_id}/record", {
          params: { path: { job_id: job.id } },
          body: { steps: STEPS },
        }),
      ),
    onSuccess: (found) =>
      notifications.show({
        title: "Recording",
        message: `Every event of steps ${found.first_step} to ${found.last_step} is kept.`,
      }),
    onError: (error) => notifications.show({ color: "red", title: "Not recorded", message: error.message }),
  });
  return (
    <Button
      variant="default"
      leftSection={<IconPlayerRecord size={16} />}
      loading={record.isPending}
      onClick={() => record.mutate()}
      title={`Keep every event of the next ${STEPS} steps; they then show in the timeline`}
      data-testid="record"
    >
      Record {STEPS} steps
    </Button>
  );
}
