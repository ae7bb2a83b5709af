import { Alert, Group, Paper, Stack, Text, Title } from "@mantine/core";
import { IconCopy } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { ForMembers } from "../../access/ForMembers";
import { useWho } from "../../access/useWho";
import { jobQuery } from "../../api/queries";
import type { Job } from "../../api/types";
import { DeleteButton } from "../../components/DeleteButton";
import { JobProgress } from "../../components/JobProgress";
import { LabelBadges } from "../../components/LabelBadges";
import { LinkAnchor, LinkButton } from "../../components/links";
import { Marked } from "../../components/Marked";
import { Owner } from "../../components/Owner";
import { RateBadge } from "../../components/RateBadge";
import { StateBadge } from "../../components/StateBadge";
import { namesApart } from "../../lib/apart";
import { isLive } from "../../lib/jobState";
import { mayChange } from "../../lib/rights";
import { CancelJob } from "./CancelJob";
import { JobLabels } from "./JobLabels";
import { PreemptButton } from "./PreemptButton";
import { RecordButton } from "./RecordButton";

/** Ranges of missing detail that are named. */
const GAPS = 4;

/** Who this is, how far it is and why it is in its state; what is missing of the chosen attempt; what one can do. */
export function JobHeader({ job, attempt }: { job: Job; attempt: number | undefined }) {
  const navigate = useNavigate();
  const may = mayChange(useWho(), job.owner);
  // The service says it in words, for a job in the queue also its place there.
  const why = job.message ?? job.reason;
  const begins = job.spec.checkpoint.start;
  const shown = job.attempts.find(({ number }) => number === attempt) ?? job.attempts.at(-1);
  const dropped = shown?.dropped ?? [];
  return (
    <Stack gap="sm">
      <Group justify="space-between" align="flex-start" gap="sm">
        <Stack gap={4} miw={0}>
          <Group gap="sm">
            <Title order={1} fz={24} style={{ overflowWrap: "anywhere" }} data-testid="job-name">
              {job.name}
            </Title>
            <StateBadge state={job.state} size="lg" />
            <LabelBadges of={job} size="md" />
          </Group>
          <Group gap={8}>
            <Text size="sm" c="dimmed">
              <b>{job.planned_by}</b> · {job.model} on {job.dataset} · {job.workers}{" "}
              {job.workers === 1 ? "worker" : "workers"} · batch {job.global_batch}
            </Text>
            {job.spec.project && (
              <Text size="sm" c="dimmed" data-testid="project">
                · project {job.spec.project}
              </Text>
            )}
            <Owner of={job} />
            <RateBadge job={job} />
            {job.baseline_id && <Other of={job} id={job.baseline_id} as="baseline" />}
            {begins && <Other of={job} id={begins.job} as={beginsAs(begins.step)} />}
          </Group>
          <JobLabels job={job} />
          {job.rehearsed && (
            <Text size="sm" data-testid="rehearsed-text">
              {job.rehearsed}
            </Text>
          )}
          {job.slowed && (
            <Text size="sm" data-testid="slowed-text">
              {job.slowed}
            </Text>
          )}
        </Stack>
        <Group gap="xs">
          {job.baseline_id && (
            <LinkButton
              to="/race"
              search={{ jobs: [job.baseline_id, job.id] }}
              variant="light"
              data-testid="race-baseline"
            >
              Step by step with its baseline
            </LinkButton>
          )}
          <ForMembers>
            <LinkButton
              to="/launch"
              search={{ from: job.id }}
              variant="default"
              leftSection={<IconCopy size={16} />}
              data-testid="launch-again"
            >
              Launch another
            </LinkButton>
          </ForMembers>
          {may && job.state === "running" && <RecordButton job={job} />}
          {may && job.state === "running" && hasCheckpoints(job) && <PreemptButton job={job} />}
          {may && isLive(job.state) && <CancelJob job={job} />}
          {may && !isLive(job.state) && (
            <DeleteButton jobs={[job]} onDeleted={([gone]) => gone && void navigate({ to: "/jobs" })} />
          )}
        </Group>
      </Group>
      {job.state === "failed" ? (
        <Alert color="red" title="This job failed" data-testid="why">
          <Text size="sm" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
            <Marked text={why ?? ""} />
          </Text>
        </Alert>
      ) : (
        why && (
          <Text size="sm" c="dimmed" data-testid="why">
            <Marked text={why} />
          </Text>
        )
      )}
      {shown && shown.lost.length > 0 && (
        <Alert
          color="yellow"
          title={shown.lost.length === 1 ? "A worker was lost" : "Workers were lost"}
          data-testid="lost-workers"
        >
          {shown.lost.map(({ text }) => (
            <Text key={text} size="sm" style={{ overflowWrap: "anywhere" }}>
              {text}
            </Text>
          ))}
        </Alert>
      )}
      {dropped.length > 0 && (
        <Alert color="yellow" title="Some detail is missing" data-testid="dropped">
          {dropped.slice(0, GAPS).map((gap) => (
            <Text key={`${gap.party} ${gap.first_step}`} size="sm">
              {gap.text}
            </Text>
          ))}
          {dropped.length > GAPS && <Text size="sm">and {dropped.length - GAPS} more ranges</Text>}
        </Alert>
      )}
      {isLive(job.state) && (
        <Paper px="sm" py={8}>
          <JobProgress job={job} withTime />
        </Paper>
      )}
    </Stack>
  );
}

function hasCheckpoints({ spec: { checkpoint } }: Job): boolean {
  return checkpoint.every_steps !== null || checkpoint.every_seconds !== null;
}

function beginsAs(step: number | null | undefined): string {
  return typeof step !== "number" ? "begins with the newest checkpoint of" : `begins with step ${step} of`;
}

/** Another job, and what it is `as` to this one. */
function Other({ of, id, as }: { of: Job; id: string; as: string }) {
  const other = useQuery(jobQuery(id)).data;
  const name = other && namesApart([of, other]).get(id);
  return (
    <Text size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }}>
      · {as}{" "}
      <LinkAnchor to="/jobs/$jobId" params={{ jobId: id }} size="sm">
        {name ?? id}
      </LinkAnchor>
    </Text>
  );
}
