import { Group, Paper, Stack, Table, Text, Title } from "@mantine/core";
import type { Ranking, Standing } from "../../api/types";
import { LinkAnchor } from "../../components/links";
import { NumberCell } from "../../components/NumberCell";
import { formatNumber } from "../../lib/format";
import { IterationBar } from "../race/IterationBar";

interface Props {
  ranking: Ranking;
  /** The slowest member under any condition: the full width of a bar. */
  longestMs: number;
}

/** All members under one condition, fastest first, and those that take no part. */
export function RankingTable({ ranking, longestMs }: Props) {
  const ranked = ranking.standings.filter(({ rank }) => rank !== null);
  const out = ranking.standings.filter(({ out }) => out !== null);
  const last = ranked.flatMap(({ job_ids }) => job_ids.at(-1) ?? []);
  return (
    <Paper p="sm" data-testid="ranking">
      <Stack gap="xs">
        <Group justify="space-between" align="baseline">
          <div>
            {ranking.condition && (
              <Text size="xs" c="dimmed" fw={600}>
                {ranking.condition}
              </Text>
            )}
            <Title order={2} fz="lg" data-testid="ranking-sentence">
              {ranking.sentence}
            </Title>
          </div>
          {last.length > 1 && (
            <LinkAnchor size="sm" to="/race" search={{ jobs: last }}>
              See their steps side by side
            </LinkAnchor>
          )}
        </Group>
        {ranked.length > 0 && (
          <Table className="ty-table">
            <Table.Thead>
              <Table.Tr>
                <Table.Th w={60}>Place</Table.Th>
                <Table.Th>Strategy</Table.Th>
                <Table.Th w={220}>Iteration</Table.Th>
                <Table.Th className="ty-right">Samples/s</Table.Th>
                <Table.Th className="ty-right">Times the fastest's</Table.Th>
                <Table.Th className="ty-right">Rounds</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {ranked.map((standing) => (
                <Row key={standing.member} standing={standing} longestMs={longestMs} />
              ))}
            </Table.Tbody>
          </Table>
        )}
        {out.map(({ member, name, out: reason }) => (
          <Text key={member} size="sm" data-testid="takes-no-part">
            <b>{name}</b> takes no part: {reason}
          </Text>
        ))}
      </Stack>
    </Paper>
  );
}

function Row({ standing, longestMs }: { standing: Standing; longestMs: number }) {
  const { name, rank, iteration_ms, exposed_ms, samples_per_s, times_fastest, low, high, rounds } = standing;
  const job = standing.job_ids.at(-1);
  return (
    <Table.Tr data-testid="standing">
      <Table.Td className="ty-number">{rank}.</Table.Td>
      <Table.Td>
        {job ? (
          <LinkAnchor to="/jobs/$jobId" params={{ jobId: job }}>
            {name}
          </LinkAnchor>
        ) : (
          name
        )}
      </Table.Td>
      <Table.Td data-label="Iteration">
        <IterationBar iterationMs={iteration_ms} exposedMs={exposed_ms} longestMs={longestMs} />
      </Table.Td>
      <NumberCell label="Samples/s">{formatNumber(samples_per_s)}</NumberCell>
      <NumberCell label="Times the fastest's">
        {formatNumber(times_fastest)}
        {low !== null && high !== null && (
          <Text span inherit c="dimmed">
            {" "}
            ({low.toFixed(2)} to {high.toFixed(2)})
          </Text>
        )}
      </NumberCell>
      <NumberCell label="Rounds">{rounds}</NumberCell>
    </Table.Tr>
  );
}
