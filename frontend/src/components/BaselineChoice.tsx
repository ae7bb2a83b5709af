import { ActionIcon, Group } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconPin } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useWho } from "../access/useWho";
import { client, unwrap } from "../api/client";
import { jobQuery } from "../api/queries";
import type { Job } from "../api/types";
import { mayChange } from "../lib/rights";
import { JobSelect } from "./JobSelect";
import { Tip } from "./Tip";

interface Props {
  job: Job;
  /** Its own, unless another is chosen. */
  baseline: string | undefined;
  onBaseline: (id: string | undefined) => void;
}

/** The job that the speed-up is measured against, for this look or, kept by who may, from now on. */
export function BaselineChoice({ job, baseline, onBaseline }: Props) {
  const own = job.baseline_id;
  const may = mayChange(useWho(), job.owner);
  const queries = useQueryClient();
  const keep = useMutation({
    mutationFn: (id: string) =>
      unwrap(
        client.PUT("/api/v1/jobs/{job_id}/baseline", {
          params: { path: { job_id: job.id } },
          body: { baseline: id },
        }),
      ),
    onSuccess: (updated) => {
      queries.setQueryData(jobQuery(job.id).queryKey, updated);
      onBaseline(undefined);
    },
    onError: (error) => notifications.show({ color: "red", title: "Not kept", message: error.message }),
  });
  return (
    <Group gap={4} wrap="nowrap">
      <JobSelect
        size="xs"
        w={260}
        aria-label="Compared with"
        placeholder="Compare with …"
        value={baseline ?? own}
        describe={(other) =>
          `${other.name} · ${other.planned_by}, ${other.workers}w${other.id === own ? " (its baseline)" : ""}`
        }
        allowed={(other) => other.id !== job.id && other.step !== null}
        clearable={baseline !== undefined}
        data-testid="baseline-choice"
        onChange={(id) => onBaseline(id === null || id === own ? undefined : id)}
      />
      {may && baseline !== undefined && baseline !== own && (
        <Tip label="Keep it as this job's baseline: lists and series are measured against it, too">
          <ActionIcon
            variant="light"
            aria-label="Keep as its baseline"
            loading={keep.isPending}
            onClick={() => keep.mutate(baseline)}
            data-testid="baseline-keep"
          >
            <IconPin size={16} />
          </ActionIcon>
        </Tip>
      )}
    </Group>
  );
}
