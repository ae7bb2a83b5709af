import { Button, Group, Paper, Skeleton, Stack, Text, Title } from "@mantine/core";
import { ForMembers } from "../../access/ForMembers";
import { ChooseJobs } from "../../components/ChooseJobs";
import { HowToReadThis } from "../../components/HowToReadThis";
import { LinkButton } from "../../components/links";
import { Problem } from "../../components/Problem";
import { usePageTitle } from "../../components/usePageTitle";
import { MOST_RACERS } from "../../lib/races";
import { HowToRead } from "./HowToRead";
import { keyOf, useGroups } from "./useGroups";

interface Props {
  onJobs: (ids: string[]) => void;
}

/** Before anything is compared: which jobs. Those that belong together are a click away. */
export function AskJobs({ onJobs }: Props) {
  const { known, choice, names, isPending, error, refetch } = useGroups();
  usePageTitle("Step by step");
  return (
    <Stack gap="md">
      <HowToReadThis />
      <div>
        <Title order={1} fz={24}>
          Jobs step by step
        </Title>
        <Text c="dimmed" size="sm" maw={720}>
          Two jobs or more on one time axis: what each worker computes, sends and receives in a step, and
          where it waits.
        </Text>
      </div>
      {error && <Problem error={error} onRetry={refetch} />}
      {isPending && !error && <Skeleton height={320} />}
      {!isPending && !error && known.length === 0 && <Nothing />}
      {choice.length > 0 && (
        <Paper p="sm" data-testid="groups">
          <Title order={2} fz="md" mb="xs">
            Jobs that belong together
          </Title>
          <Group gap="xs">
            {choice.map(({ jobs }, place) => (
              <Button
                key={keyOf(jobs)}
                variant="default"
                size="xs"
                maw="100%"
                h="auto"
                py={6}
                styles={{ label: { whiteSpace: "normal", lineHeight: 1.3 } }}
                title={jobs.map(({ name }) => name).join(", ")}
                onClick={() => onJobs(jobs.map(({ id }) => id))}
              >
                {names[place]}: {jobs.length} jobs
              </Button>
            ))}
          </Group>
        </Paper>
      )}
      {known.length > 0 && (
        <ChooseJobs
          fewest={2}
          most={MOST_RACERS}
          action={(count) => (count > 1 ? `${count} jobs step by step` : "Step by step")}
          hint={`Tick two to ${MOST_RACERS}. They stand below one another in the order in which they are ticked.`}
          onJobs={onJobs}
        />
      )}
    </Stack>
  );
}

function Nothing() {
  return (
    <Stack align="flex-start" gap="sm" data-testid="race-empty">
      <Text maw={620}>There are no jobs yet. Launch two and watch them, or race strategies.</Text>
      <HowToRead />
      <ForMembers>
        <Group>
          <LinkButton to="/launch" search={{ race: true }}>
            Race strategies
          </LinkButton>
          <LinkButton to="/launch" variant="default">
            Launch a job
          </LinkButton>
        </Group>
      </ForMembers>
    </Stack>
  );
}
