import { useQueryClient } from "@tanstack/react-query";
import { client, unwrap } from "../../api/client";
import { jobQuery } from "../../api/queries";
import type { Job } from "../../api/types";
import { CancelButton } from "../../components/CancelButton";
import { isStoppable } from "../../lib/jobState";

/** Ends a job. */
export function CancelJob({ job }: { job: Job }) {
  const queries = useQueryClient();
  const cancel = async () => {
    const params = { path: { job_id: job.id } };
    const ended = await unwrap(client.POST("/api/v1/jobs/{job_id}/cancel", { params }));
    queries.setQueryData(jobQuery(job.id).queryKey, ended);
  };
  const text = job.started_at
    ? "Its processes are stopped, and it cannot be continued. What it has recorded until now stays."
    : "It has not started yet, and will not.";
  return (
    <CancelButton
      what="the job"
      name={job.name}
      text={text}
      disabled={!isStoppable(job.state)}
      cancel={cancel}
      testId="cancel"
    />
  );
}
