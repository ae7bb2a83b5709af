import { Grid, Group, Skeleton, Stack, Text, Timeline } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { strategiesQuery } from "../../api/queries";
import type { JobSummary } from "../../api/types";
import { JobFigure } from "../../components/JobFigure";
import { JobProgress } from "../../components/JobProgress";
import { LabelBadges } from "../../components/LabelBadges";
import { LinkButton } from "../../components/links";
import { RateBadge } from "../../components/RateBadge";
import { StateBadge } from "../../components/StateBadge";
import { isAtWork, STATES } from "../../lib/jobState";
import { HowToRead } from "./HowToRead";

interface Props {
  jobs: JobSummary[];
  /** The job that runs while these wait, if it is none of them. */
  ahead: JobSummary | undefined;
  loading: boolean;
}

/** Before two jobs have a step in common: who is coming, in which order, what each does differently, and the first
 * one's own pictures as soon as it runs. */
export function RaceWaiting({ jobs, ahead, loading }: Props) {
  if (loading) return <Skeleton height={320} />;
  if (jobs.length === 0) return <NoneThere />;
  const own = jobs.findLast((job) => job.step !== null);
  const leader = own ?? (ahead?.step === null ? undefined : ahead);
  return (
    <Grid gap="lg" data-testid="race-waiting">
      <Grid.Col span={{ base: 12, md: leader ? 5 : 12 }}>
        <Stack gap="md" p={{ base: 0, sm: "xs" }}>
          <Text c="dimmed" size="sm" maw={720}>
            Two jobs are drawn here as soon as both have run the same step: a row each for what every worker
            computes, sends and receives, all on one time axis.
          </Text>
          {!leader && <HowToRead />}
          <Queue jobs={jobs} />
        </Stack>
      </Grid.Col>
      {leader && (
        <Grid.Col span={{ base: 12, md: 7 }}>
          <Stack gap="sm">
            <Text size="sm" fw={600} c="dimmed">
              {own ? "Until then: " : "Running ahead of these: "}
              <Link to="/jobs/$jobId" params={{ jobId: leader.id }} className="ty-link">
                {leader.name}
              </Link>
            </Text>
            {!own && <JobProgress job={leader} />}
            <JobFigure key={`${leader.id} timeline`} jobId={leader.id} name="timeline" />
            <JobFigure key={`${leader.id} loss`} jobId={leader.id} name="loss" />
          </Stack>
        </Grid.Col>
      )}
    </Grid>
  );
}

function Queue({ jobs }: { jobs: JobSummary[] }) {
  const strategies = useQuery(strategiesQuery).data ?? [];
  return (
    <Timeline active={jobs.findLastIndex((job) => job.state !== "queued")} bulletSize={22} lineWidth={2}>
      {jobs.map((job, index) => (
        <Timeline.Item
          key={job.id}
          color={STATES[job.state].color}
          bullet={
            <Text size="xs" fw={700}>
              {index + 1}
            </Text>
          }
          title={
            <Group gap="xs">
              <Link to="/jobs/$jobId" params={{ jobId: job.id }} className="ty-link">
                {job.name}
              </Link>
              <StateBadge state={job.state} />
              <LabelBadges of={job} />
              <RateBadge job={job} />
            </Group>
          }
        >
          <Text size="sm" c="dimmed" maw={720}>
            <b>{job.planned_by}</b> with {job.workers} {job.workers === 1 ? "worker" : "workers"}.{" "}
            {strategies.find((entry) => entry.name === job.strategy)?.summary}
          </Text>
          {job.message && (
            <Text size="xs" c={job.state === "failed" ? "red" : "dimmed"}>
              {job.message}
            </Text>
          )}
          {isAtWork(job) && (
            <Group maw={420} mt={4}>
              <JobProgress job={job} />
            </Group>
          )}
        </Timeline.Item>
      ))}
    </Timeline>
  );
}

function NoneThere() {
  return (
    <LinkButton to="/race" variant="default" data-testid="race-none">
      Choose other jobs
    </LinkButton>
  );
}
