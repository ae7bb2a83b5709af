import { Group, Paper, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { bestQuery } from "../../api/raceQueries";
import type { BestCondition, RaceBest, RaceView } from "../../api/types";
import { ByControl } from "../../components/ByControl";
import { capital } from "../../components/Explained";
import { NumberCell } from "../../components/NumberCell";
import { Problem } from "../../components/Problem";
import { TakeTable } from "../../components/TakeTable";
import { type Attained, bestCsv, bestRows, isEvaluated } from "../../lib/best";
import { NONE } from "../../lib/format";
import type { By } from "../../lib/search";
import { LearningFigure } from "./LearningFigure";

const NOT_COMPARED = "It was not compared by this criterion: the verdict says why";

interface Props {
  race: RaceView;
  by: By;
  onBy: (by: By) => void;
}

/** Which plan is best, by speed and by what it learns, under each condition of a race whose jobs were evaluated. */
export function BestPanel({ race, by, onBy }: Props) {
  const { data: best, error, refetch } = useQuery(bestQuery(race.id));
  if (error) return <Problem error={error} onRetry={() => void refetch()} />;
  return best?.conditions.map(
    (condition, place) =>
      isEvaluated(condition) && (
        <Paper key={condition.condition} p="sm" data-testid="best">
          <Stack gap="xs">
            <div>
              <Text size="xs" c="dimmed" fw={600}>
                {["Which plan is best", condition.condition].filter(Boolean).join(" · ")}
              </Text>
              <Title order={2} fz="lg" data-testid="best-sentence">
                {capital(condition.sentence)}
              </Title>
            </div>
            <Verdicts race={race.name} condition={condition} />
            <Numbers race={race.name} best={best} condition={condition} />
            <Group justify="space-between" gap="xs">
              <Title order={3} fz="sm">
                How each plan learned
              </Title>
              <ByControl testId="best-by" by={by} onBy={onBy} />
            </Group>
            <LearningFigure raceId={race.id} name={race.name} condition={place} by={by} />
            {condition.notes.map((note) => (
              <Text key={note} size="xs" c="dimmed" data-testid="best-note">
                {note}.
              </Text>
            ))}
          </Stack>
        </Paper>
      ),
  );
}

function Verdicts({ race, condition }: { race: string; condition: BestCondition }) {
  return (
    <TakeTable file={`${race} verdicts ${condition.condition}`}>
      <Table className="ty-table" data-testid="best-verdicts">
        <Table.Thead>
          <Table.Tr>
            <Table.Th w={190}>Criterion</Table.Th>
            <Table.Th>Verdict</Table.Th>
            <Table.Th>Reason</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {condition.criteria.map(({ name, title, at, verdict, reason }) => (
            <Table.Tr key={name}>
              <Table.Td>
                {title}
                {at && (
                  <Text span display="block" size="xs" c="dimmed">
                    {at}
                  </Text>
                )}
              </Table.Td>
              <Table.Td data-label="Verdict">{verdict}</Table.Td>
              <Table.Td data-label="Reason">{reason ?? NONE}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </TakeTable>
  );
}

/** What every member attained by each criterion, with its interval. */
function Numbers({ race, best, condition }: { race: string; best: RaceBest; condition: BestCondition }) {
  return (
    <TakeTable file={`${race} best ${condition.condition}`} rows={() => bestCsv(condition)}>
      <Table className="ty-table" data-testid="best-numbers">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Plan</Table.Th>
            {condition.criteria.map(({ name, title }) => (
              <Table.Th key={name} className="ty-right">
                {title}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {bestRows(condition, best.score).map(({ member, name, attained }) => (
            <Table.Tr key={member}>
              <Table.Td>{name}</Table.Td>
              {condition.criteria.map(({ name: criterion, title }, place) => {
                const one = attained[place];
                return (
                  <NumberCell key={criterion} label={title} none={NOT_COMPARED} half>
                    {one ? <Value {...one} /> : NONE}
                  </NumberCell>
                );
              })}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </TakeTable>
  );
}

function Value({ value, ends, best, unsure }: Attained) {
  return (
    <>
      <Text span inherit fw={best ? 700 : undefined}>
        {value}
      </Text>
      {ends && (
        <Text span inherit c="dimmed" display="block" fz="xs">
          {ends}
        </Text>
      )}
      {unsure && (
        <Text span inherit c="dimmed" display="block" fz="xs">
          too few to tell
        </Text>
      )}
    </>
  );
}
