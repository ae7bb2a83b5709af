import { ActionIcon, Group, Paper, Text } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import type { Job } from "../../api/types";
import { JobSelect } from "../../components/JobSelect";
import { LabelBadges } from "../../components/LabelBadges";
import { LinkButton } from "../../components/links";
import { RateBadge } from "../../components/RateBadge";
import { StateBadge } from "../../components/StateBadge";
import { MOST_COMPARED, MOST_RACERS } from "../../lib/races";

/** Which jobs are compared; one can be left out. */
export function ChosenJobs({ jobs, onJobs }: { jobs: Job[]; onJobs: (ids: string[]) => void }) {
  const ids = jobs.map((job) => job.id);
  return (
    <Paper p="sm" data-testid="compare-jobs">
      <Group gap="sm">
        {jobs.map((job) => (
          <Group key={job.id} gap={6} maw="100%">
            <Link to="/jobs/$jobId" params={{ jobId: job.id }} className="ty-link">
              {job.name}
            </Link>
            <Text size="xs" c="dimmed">
              {job.planned_by}
            </Text>
            <StateBadge state={job.state} />
            <LabelBadges of={job} />
            <RateBadge job={job} />
            <ActionIcon
              size="sm"
              variant="subtle"
              color="gray"
              aria-label={`Leave out ${job.name}`}
              data-testid={`leave-out-${job.id}`}
              onClick={() => onJobs(ids.filter((id) => id !== job.id))}
            >
              <IconX size={14} />
            </ActionIcon>
          </Group>
        ))}
        {ids.length < MOST_COMPARED && (
          <JobSelect
            size="xs"
            w={220}
            aria-label="Add a job"
            placeholder="Add a job …"
            value={null}
            describe={(job) => `${job.name} · ${job.planned_by}`}
            allowed={(job) => !ids.includes(job.id)}
            data-testid="add-job"
            onChange={(id) => id && onJobs([...ids, id])}
          />
        )}
        {ids.length > 1 && ids.length <= MOST_RACERS && (
          <LinkButton to="/race" search={{ jobs: ids }} size="compact-sm" variant="light" ml="auto">
            Step by step
          </LinkButton>
        )}
      </Group>
    </Paper>
  );
}
