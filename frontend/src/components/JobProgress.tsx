import { Group, Progress, Text } from "@mantine/core";
import type { JobSummary } from "../api/types";
import { formatDuration, formatNumber } from "../lib/format";
import { progress, STATES, secondsLeft } from "../lib/jobState";

/** A bar and `120 / 400`, and where there is room the time that is left. */
export function JobProgress({ job, withTime = false }: { job: JobSummary; withTime?: boolean }) {
  const left = withTime ? secondsLeft(job) : null;
  const share = progress(job);
  const shown = STATES[job.state];
  const percent = share === null ? 0 : 100 * share;
  const steps = `${formatNumber(job.step ?? 0, 6)}${job.steps === null ? "" : ` / ${formatNumber(job.steps, 6)}`}`;
  return (
    <Group gap={8} wrap="nowrap" miw={0} style={{ flex: 1 }}>
      <Progress
        value={percent}
        color={shown.color}
        size="sm"
        radius="xl"
        miw={40}
        style={{ flex: 1 }}
        aria-label={`Progress of ${job.name}: ${steps} steps`}
      />
      <Text size="xs" c="dimmed" className="ty-number">
        {steps}
      </Text>
      {left !== null && (
        <Text size="xs" c="dimmed" className="ty-number" data-testid="time-left">
          about {formatDuration(left)} left
        </Text>
      )}
    </Group>
  );
}
