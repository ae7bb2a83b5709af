import { Button } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconPlayerPause } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { client, unwrap } from "../../api/client";
import { jobQuery } from "../../api/queries";
import type { Job } from "../../api/types";

/** Lets a job that runs make room for others; it goes on from a checkpoint later. */
export function PreemptButton({ job }: { job: Job }) {
  const queries = useQueryClient();
  const preempt = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/jobs/{job_id}/preempt", { params: { path: { job_id: job.id } } })),
    onSuccess: (asked) => queries.setQueryData(jobQuery(job.id).queryKey, asked),
    onError: (error) => notifications.show({ color: "red", title: "Not preempted", message: error.message }),
  });
  return (
    <Button
      variant="default"
      leftSection={<IconPlayerPause size={16} />}
      loading={preempt.isPending}
      onClick={() => preempt.mutate()}
      title="End this attempt with a checkpoint and queue behind the others; the job goes on from there"
      data-testid="preempt"
    >
      Make room
    </Button>
  );
}
