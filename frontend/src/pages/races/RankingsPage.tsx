import { Button, Group, List, Progress, Skeleton, Stack, Text, Title } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { ForMembers } from "../../access/ForMembers";
import { useWho } from "../../access/useWho";
import { rankingsQuery } from "../../api/raceQueries";
import type { RaceView } from "../../api/types";
import { capital } from "../../components/Explained";
import { HowToReadThis } from "../../components/HowToReadThis";
import { LabelBadges } from "../../components/LabelBadges";
import { LinkAnchor, LinkButton } from "../../components/links";
import { NotShown } from "../../components/NotShown";
import { Owner } from "../../components/Owner";
import { usePageTitle } from "../../components/usePageTitle";
import { counted, formatDuration } from "../../lib/format";
import { howCompared } from "../../lib/howCompared";
import { raceConditions } from "../../lib/raceConditions";
import { USUAL_ROUNDS } from "../../lib/raceForm";
import { refusedEverywhere } from "../../lib/ranking";
import { mayChange } from "../../lib/rights";
import { SPEED_WORDS } from "../../lib/speedWords";
import { withZoom, zoomsOf } from "../../lib/zoom";
import { AddMember } from "./AddMember";
import { BestPanel } from "./BestPanel";
import { CancelRace } from "./CancelRace";
import { DeleteRace } from "./DeleteRace";
import { NextSteps } from "./NextSteps";
import { RaceBadge } from "./RaceBadge";
import { RaceFigure } from "./RaceFigure";
import { RankingTable } from "./RankingTable";
import { useEndedFigures } from "./useEndedFigures";

const route = getRouteApi("/races/$raceId");

/** One race: under each condition who is fastest, by how much, and why. */
export function RankingsPage() {
  const { raceId } = route.useParams();
  const { by = "samples", zoom } = route.useSearch();
  const navigate = route.useNavigate();
  const who = useWho();
  const found = useQuery(rankingsQuery(raceId));
  const race = found.data;
  useEndedFigures(race);
  usePageTitle(race ? `${race.state === "running" ? "● " : ""}${race.name}` : "Race");
  if (found.error) return <NotShown what="race" error={found.error} onRetry={() => void found.refetch()} />;
  if (!race) return <Skeleton height={300} />;
  const longest = Math.max(
    0,
    ...race.rankings.flatMap(({ standings }) => standings.map(({ iteration_ms }) => iteration_ms ?? 0)),
  );
  const refused = refusedEverywhere(race.rankings);
  const may = mayChange(who, race.owner);
  return (
    <Stack gap="md">
      <HowToReadThis />
      <Group justify="space-between" align="flex-start">
        <div>
          <Group gap="xs">
            <Title order={1} fz={24} data-testid="race-name">
              {race.name}
            </Title>
            <RaceBadge race={race} />
            <LabelBadges of={race} size="md" />
          </Group>
          <Text c="dimmed" size="sm">
            {race.model} under {race.members.join(", ")} <Owner of={race} />
          </Text>
          <Text c="dimmed" size="sm" data-testid="race-conditions">
            {raceConditions(race.spec)}
          </Text>
        </div>
        <Group gap="xs">
          <Button
            component="a"
            href={`/api/v1/races/${race.id}/report`}
            download
            variant="default"
            leftSection={<IconDownload size={16} />}
            data-testid="race-report"
          >
            Report
          </Button>
          <Button
            component="a"
            href={`/api/v1/races/${race.id}/tables`}
            download
            variant="default"
            leftSection={<IconDownload size={16} />}
            title="All that its jobs recorded, as Parquet files for pandas, DuckDB and others"
            data-testid="race-tables"
          >
            Tables
          </Button>
          <ForMembers>
            <LinkButton to="/launch" search={{ again: race.id }} variant="default" data-testid="race-again">
              Race again
            </LinkButton>
          </ForMembers>
          {may && race.state === "running" && <CancelRace race={race} />}
          {may && race.state !== "running" && (
            <DeleteRace race={race} onDeleted={() => navigate({ to: "/races" })} />
          )}
        </Group>
      </Group>
      {race.state === "running" && <HowFar race={race} />}
      {race.notes.map((note) => (
        <Text key={note} size="sm" fw={600} data-testid="race-note">
          {note}.
        </Text>
      ))}
      {race.rankings.map((ranking) => (
        <RankingTable
          key={ranking.condition}
          race={race.name}
          ranking={ranking}
          longestMs={longest}
          refused={refused.map(({ member }) => member)}
        />
      ))}
      {refused.map(({ member, name, reason }) => (
        <Text key={member} size="sm" data-testid="takes-no-part">
          <b>{name}</b> takes no part under any condition: {reason}
        </Text>
      ))}
      {race.rankings.length > 1 && (
        <RaceFigure
          raceId={race.id}
          name={race.name}
          zoom={zoomsOf(zoom).throughput}
          onXRange={(range) =>
            void navigate({
              search: (previous) => ({ ...previous, zoom: withZoom(zoom, "throughput", range) }),
              replace: true,
              resetScroll: false,
            })
          }
        />
      )}
      {race.crossings.length > 0 && (
        <div>
          <Title order={2} fz="md">
            Where the order changes
          </Title>
          <List size="sm" data-testid="crossings">
            {race.crossings.map((text) => (
              <List.Item key={text}>{text}</List.Item>
            ))}
          </List>
        </div>
      )}
      <NextSteps race={race} />
      {may && race.state !== "cancelled" && <AddMember race={race} />}
      {/* It comes later than the rest, so that nothing that one may use stands below it. */}
      {race.spec.job.fidelity !== "rehearse" && (
        <BestPanel
          race={race}
          by={by}
          onBy={(chosen) =>
            void navigate({
              search: (previous) => ({ ...previous, by: chosen }),
              replace: true,
              resetScroll: false,
            })
          }
        />
      )}
      <Text size="xs" c="dimmed">
        {howCompared(race)} The intervals of a ranking are so wide that in 95 of 100 such races every one of
        them holds the true value. A difference counts where it is more than chance and at least 1 %; with
        fewer than three rounds none does. {SPEED_WORDS}.
      </Text>
    </Stack>
  );
}

function HowFar({ race }: { race: RaceView }) {
  const far = race.waits
    ? `${capital(race.waits)};`
    : `round ${race.round} of ${race.spec.rounds ?? USUAL_ROUNDS},`;
  const words = `${far} ${race.jobs_ended} of ${counted(race.jobs, "job")} ended`;
  return (
    <Stack gap={4}>
      <Progress value={(100 * race.jobs_ended) / Math.max(1, race.jobs)} aria-label={words} />
      <Group gap="xs">
        <Text size="sm" data-testid="race-progress">
          {words}
          {race.left_s !== null && `, about ${formatDuration(race.left_s)} left`}
        </Text>
        {race.running_job && (
          <LinkAnchor size="sm" to="/jobs/$jobId" params={{ jobId: race.running_job }}>
            {race.waits ? "its job" : "the job that runs"}
          </LinkAnchor>
        )}
      </Group>
    </Stack>
  );
}
