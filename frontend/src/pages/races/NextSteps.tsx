import { Button, Group, Paper, Stack, Text, Title } from "@mantine/core";
import { ForMembers } from "../../access/ForMembers";
import { useWho } from "../../access/useWho";
import type { RaceView, Suggestion } from "../../api/types";
import { LinkButton } from "../../components/links";
import { mayChange } from "../../lib/rights";
import { useJoin } from "./useJoin";

/** What to try next, each with its reason and the button that does it. */
export function NextSteps({ race }: { race: RaceView }) {
  if (race.next.length === 0) return null;
  return (
    <Paper p="sm" data-testid="next">
      <Title order={2} fz="md" mb={4}>
        What to try next
      </Title>
      <Stack gap="xs">
        {race.next.map((suggestion) => (
          <Group key={suggestion.text} gap="sm" align="flex-start">
            <Do race={race} suggestion={suggestion} />
            <Text size="sm" style={{ flex: "1 1 15rem" }}>
              because {suggestion.reason}.
            </Text>
          </Group>
        ))}
      </Stack>
    </Paper>
  );
}

/** Of buttons whose label is a sentence: on a phone it takes two lines. */
const LOOK = {
  size: "compact-sm",
  variant: "light",
  h: "auto",
  maw: "100%",
  styles: {
    inner: { minHeight: "calc(var(--button-height) - 2px)" },
    label: { whiteSpace: "normal", lineHeight: 1.3 },
  },
} as const;

/** A member joins this race while it runs; all else is another race, which Launch shows first. Who may not do it reads
 * it. */
function Do({ race, suggestion }: { race: RaceView; suggestion: Suggestion }) {
  const { text, member, condition, rounds, fidelity } = suggestion;
  const join = useJoin(race);
  const may = mayChange(useWho(), race.owner);
  const words = <Text size="sm">{text}</Text>;
  if (member && race.state === "running" && !may) return words;
  if (member && race.state === "running")
    return (
      <Button {...LOOK} loading={join.isPending} onClick={() => join.mutate(member)} data-testid="add-member">
        {text}
      </Button>
    );
  const search = {
    again: race.id,
    member: member?.strategy,
    rate: condition?.rate ?? undefined,
    workers: condition?.workers ?? undefined,
    batch: condition?.batch ?? undefined,
    rounds: rounds ?? undefined,
    fidelity: fidelity ?? undefined,
  };
  return (
    <ForMembers otherwise={words}>
      <LinkButton {...LOOK} to="/launch" search={search} data-testid="race-next">
        {text}
      </LinkButton>
    </ForMembers>
  );
}
