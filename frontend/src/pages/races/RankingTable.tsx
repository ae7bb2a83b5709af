import { Badge, Group, Paper, Stack, Table, Text, Title } from "@mantine/core";
import type { Ranking, Standing } from "../../api/types";
import { capital } from "../../components/Explained";
import { LinkAnchor } from "../../components/links";
import { NumberCell } from "../../components/NumberCell";
import { OrWhyNot } from "../../components/OrWhyNot";
import { TakeTable } from "../../components/TakeTable";
import { Term } from "../../components/Term";
import { Tip } from "../../components/Tip";
import { formatBusy, formatThroughput, formatTimesFastest, NONE } from "../../lib/format";
import { limitSaid, rankingRows } from "../../lib/ranking";
import { WHY_NONE } from "../../lib/whyNone";
import { IterationBar } from "../race/IterationBar";

const LIMITS = {
  input: "grape",
  compute: "teal",
  port: "blue",
  processors: "orange",
  waiting: "gray",
} as const;

const TIMES =
  "Its iteration time over the fastest one's, with the 95 % interval of that ratio, over the rounds that all with a place have run.";

interface Props {
  /** The race's name, for files. */
  race: string;
  ranking: Ranking;
  /** The slowest member under any condition: the full width of a bar. */
  longestMs: number;
  /** Members that take no part under any condition: the page says so once. */
  refused: number[];
}

/** All members under one condition, fastest first, then those without a place, and those that take no part. */
export function RankingTable({ race, ranking, longestMs, refused }: Props) {
  const ranked = ranking.standings.filter(({ iteration_ms }) => iteration_ms !== null);
  const out = ranking.standings.filter(({ member, out }) => out !== null && !refused.includes(member));
  const last = ranked.flatMap(({ job_ids }) => job_ids.at(-1) ?? []);
  return (
    <Paper p="sm" data-testid="ranking">
      <Stack gap="xs">
        <Group justify="space-between" align="baseline" gap={4}>
          <div style={{ flex: "1 1 260px" }}>
            {ranking.condition && (
              <Text size="xs" c="dimmed" fw={600}>
                {ranking.condition}
              </Text>
            )}
            <Title order={2} fz="lg" data-testid="ranking-sentence">
              {ranking.headline}
              <Text span inherit fz="sm" fw={400}>
                {ranking.sentence.slice(ranking.headline.length)}
              </Text>
            </Title>
            {ranking.gains && (
              <Text size="sm" data-testid="ranking-gains">
                {ranking.gains}.
              </Text>
            )}
          </div>
          {last.length > 1 && (
            <LinkAnchor size="sm" to="/race" search={{ jobs: last }} style={{ flex: "none" }}>
              Step by step, round {Math.max(...ranked.map(({ rounds }) => rounds))}
            </LinkAnchor>
          )}
        </Group>
        {ranked.length > 0 && (
          <TakeTable file={`${race} ranking ${ranking.condition}`} rows={() => rankingRows(ranking)}>
            <Table className="ty-table">
              <Table.Thead>
                <Table.Tr>
                  <Table.Th w={60}>Place</Table.Th>
                  <Table.Th>Strategy</Table.Th>
                  <Table.Th w={135}>Limited by</Table.Th>
                  <Table.Th w={220}>
                    <Term name="iteration time">Iteration</Term>,{" "}
                    <Term name="exposed communication">exposed</Term>
                  </Table.Th>
                  <Table.Th className="ty-right">
                    <Term name="throughput">Samples/s</Term>
                  </Table.Th>
                  <Table.Th className="ty-right">
                    <Tip label={TIMES}>
                      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: its explanation must be within reach of the keyboard, too */}
                      <span className="ty-term" tabIndex={0}>
                        Relative time
                      </span>
                    </Tip>
                  </Table.Th>
                  <Table.Th className="ty-right">
                    <Term name="round">Rounds</Term>
                  </Table.Th>
                  <Table.Th className="ty-right">
                    <Term name="port">Port busy</Term>
                  </Table.Th>
                  <Table.Th className="ty-right">
                    <Term name="processors">Processors</Term>
                  </Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {ranked.map((standing) => (
                  <Row key={standing.member} standing={standing} longestMs={longestMs} />
                ))}
              </Table.Tbody>
            </Table>
          </TakeTable>
        )}
        {out.map(({ member, name, out: reason, job_ids }) => (
          <Text key={member} size="sm" data-testid="takes-no-part">
            <b>{name}</b> takes no part: {reason}
            <LastJob id={job_ids.at(-1)} />
          </Text>
        ))}
      </Stack>
    </Paper>
  );
}

function Row({ standing, longestMs }: { standing: Standing; longestMs: number }) {
  const { name, rank, tied, remark, iteration_ms, exposed_ms, samples_per_s, times_fastest, rounds, limit } =
    standing;
  const { port_busy, processors } = standing;
  const apart = remark ? `${name} ${remark}` : WHY_NONE.place;
  const job = standing.job_ids.at(-1);
  return (
    <Table.Tr data-testid="standing">
      <Table.Td className="ty-number" data-label="Place">
        <OrWhyNot why={apart}>{rank ?? NONE}</OrWhyNot>
        {tied && (
          <Text span inherit c="dimmed" display="block" fz="xs">
            not told apart
          </Text>
        )}
      </Table.Td>
      <Table.Td>
        {job ? (
          <LinkAnchor to="/jobs/$jobId" params={{ jobId: job }}>
            {name}
          </LinkAnchor>
        ) : (
          name
        )}
      </Table.Td>
      <Table.Td data-label="Limited by">
        {limit ? (
          <Tip label={capital(limitSaid(limit))}>
            <Badge color={LIMITS[limit.kind]} style={{ maxWidth: "none" }} tabIndex={0} data-testid="limit">
              {limit.kind}
            </Badge>
          </Tip>
        ) : (
          <OrWhyNot why={WHY_NONE.limit}>{NONE}</OrWhyNot>
        )}
      </Table.Td>
      <Table.Td data-label="Iteration">
        <IterationBar iterationMs={iteration_ms} exposedMs={exposed_ms} longestMs={longestMs} />
      </Table.Td>
      <NumberCell label="Samples/s" none={WHY_NONE.steps}>
        {formatThroughput(samples_per_s)}
      </NumberCell>
      <NumberCell label="Relative time" none={apart}>
        {times_fastest === null ? NONE : <Times standing={standing} />}
      </NumberCell>
      <NumberCell label="Rounds">{rounds}</NumberCell>
      <NumberCell label="Port busy" none={WHY_NONE.port}>
        {port_busy === null ? NONE : <Port standing={standing} />}
      </NumberCell>
      <NumberCell label="Processors" none={WHY_NONE.processors}>
        {processors === null ? (
          NONE
        ) : (
          <Busy all={processors.busy} part={`its job ${formatBusy(processors.own)}`} />
        )}
      </NumberCell>
    </Table.Tr>
  );
}

/** The ratio, with the ends of its interval. */
function Times({ standing: { times_fastest, low, high } }: { standing: Standing }) {
  return (
    <>
      {formatTimesFastest(times_fastest)}
      {low !== null && high !== null && (
        <Text span inherit c="dimmed">
          {" "}
          ({formatTimesFastest(low)} to {formatTimesFastest(high)})
        </Text>
      )}
    </>
  );
}

/** The busiest port of each moment; and the one that was busiest by itself, where ports take turns. */
function Port({ standing: { port_busy, one_port_busy } }: { standing: Standing }) {
  const [all, one] = [formatBusy(port_busy), formatBusy(one_port_busy)];
  return (
    <Busy all={port_busy} part={one_port_busy === null || one === all ? undefined : `one alone ${one}`} />
  );
}

/** A share, and what is to be known of it. */
function Busy({ all, part }: { all: number | null; part: string | undefined }) {
  return (
    <>
      {formatBusy(all)}
      {part && (
        <Text span inherit c="dimmed" display="block" fz="xs">
          {part}
        </Text>
      )}
    </>
  );
}

/** Leads to the job that took a member out of the race; of one that was refused there is none. */
function LastJob({ id }: { id: string | undefined }) {
  if (id === undefined) return null;
  return (
    <>
      {" "}
      <LinkAnchor size="sm" to="/jobs/$jobId" params={{ jobId: id }} data-testid="lost-job">
        its last job
      </LinkAnchor>
    </>
  );
}
