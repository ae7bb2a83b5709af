import { Group, Skeleton, Stack, Text, Timeline } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { strategiesQuery } from "../../api/queries";
import type { JobSummary } from "../../api/types";
import { JobProgress } from "../../components/JobProgress";
import { LinkButton } from "../../components/links";
import { RateBadge } from "../../components/RateBadge";
import { StateBadge } from "../../components/StateBadge";
import { isLive, STATES } from "../../lib/jobState";
import { HowToRead } from "./HowToRead";

/** Before the first step: who is coming, in which order, and what each of them will do differently. */
export function RaceWaiting({ jobs, loading }: { jobs: JobSummary[]; loading: boolean }) {
  const strategies = useQuery(strategiesQuery).data ?? [];
  if (loading) return <Skeleton height={320} />;
  if (jobs.length === 0) return <Nothing />;
  const active = jobs.findLastIndex((job) => job.state !== "queued");
  return (
    <Stack gap="md" p={{ base: 0, sm: "sm" }} data-testid="race-waiting">
      <Text c="dimmed" size="sm" maw={760}>
        The drawing appears here with the first step: one row each for what a worker computes, sends and
        receives, all jobs on one time axis.
      </Text>
      <HowToRead />
      <Timeline active={active} bulletSize={22} lineWidth={2} color="indigo">
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
              <Group gap="sm" wrap="wrap">
                <Link to="/jobs/$jobId" params={{ jobId: job.id }} className="ty-link">
                  {job.name}
                </Link>
                <StateBadge state={job.state} />
                <RateBadge bps={job.rate_bps} />
              </Group>
            }
          >
            <Text size="sm" c="dimmed" maw={760}>
              <b>{job.strategy}</b> with {job.workers} {job.workers === 1 ? "worker" : "workers"}.{" "}
              {strategies.find((entry) => entry.name === job.strategy)?.summary}
            </Text>
            {(job.message ?? job.reason) && (
              <Text size="xs" c={job.state === "failed" ? "red" : "dimmed"}>
                {job.message ?? job.reason}
              </Text>
            )}
            {isLive(job.state) && job.state !== "queued" && (
              <Group maw={420} mt={4}>
                <JobProgress job={job} />
              </Group>
            )}
          </Timeline.Item>
        ))}
      </Timeline>
    </Stack>
  );
}

function Nothing() {
  return (
    <Stack align="flex-start" gap="sm" p="lg" data-testid="race-empty">
      <Text maw={620} c="dimmed">
        A race puts two or more jobs on one time axis, step by step: what each worker computes, sends and
        receives, and where it waits. Launch a job, give a second one the first as its baseline, and come back
        here; or choose jobs from the list.
      </Text>
      <HowToRead />
      <Group>
        <LinkButton to="/launch">Launch a job</LinkButton>
        <LinkButton to="/jobs" variant="default">
          Choose from the list
        </LinkButton>
      </Group>
    </Stack>
  );
}
