import { Button, Code, Group, Skeleton, Stack, Table, Text, Title } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ForMembers } from "../../access/ForMembers";
import { useWho } from "../../access/useWho";
import { racesQuery } from "../../api/raceQueries";
import type { RaceSummary } from "../../api/types";
import { LabelBadges } from "../../components/LabelBadges";
import { LongName } from "../../components/LongName";
import { LinkButton } from "../../components/links";
import { Owner } from "../../components/Owner";
import { Problem } from "../../components/Problem";
import { TakeTable } from "../../components/TakeTable";
import { Term } from "../../components/Term";
import { usePageTitle } from "../../components/usePageTitle";
import { formatAge } from "../../lib/format";
import { raceRows } from "../../lib/racesCsv";
import { mayChange } from "../../lib/rights";
import { StartCards } from "../start/StartCards";
import { DeleteRace } from "./DeleteRace";
import { RaceBadge } from "./RaceBadge";

/** Every race, newest first. */
export function RacesPage() {
  const races = useInfiniteQuery(racesQuery);
  usePageTitle("Races");
  const items = races.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Stack gap="md" data-testid="races">
      <Group justify="space-between" align="flex-start">
        <div>
          <Title order={1} fz={24}>
            Races
          </Title>
          <Text c="dimmed" size="sm">
            A race runs one job under several strategies, <Term name="round">round</Term> by round, and says
            which is fastest, and why.
          </Text>
        </div>
        <Group gap="xs">
          <LinkButton to="/race" variant="default" data-testid="step-by-step">
            Jobs step by step
          </LinkButton>
          <ForMembers>
            <LinkButton to="/launch" search={{ race: true }} data-testid="race-strategies">
              Race strategies
            </LinkButton>
          </ForMembers>
        </Group>
      </Group>
      {races.error && <Problem error={races.error} onRetry={() => void races.refetch()} />}
      {races.isPending && <Skeleton height={200} />}
      {races.data && items.length === 0 && (
        <ForMembers otherwise={<Text data-testid="races-empty">There is no race yet.</Text>}>
          <Text data-testid="races-empty">
            There is no race yet. Begin with one of these, or in a terminal:{" "}
            <Code>trainyard race job.yaml --strategies parameter-server,p3,ddp</Code>
          </Text>
          <StartCards />
        </ForMembers>
      )}
      {items.length > 0 && (
        <TakeTable
          file="races"
          label={races.hasNextPage ? `CSV of the ${items.length} shown` : undefined}
          rows={() => raceRows(items)}
        >
          <Table className="ty-table" data-testid="races-table" highlightOnHover>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Race</Table.Th>
                <Table.Th w={180}>State</Table.Th>
                <Table.Th>Members</Table.Th>
                <Table.Th>Model</Table.Th>
                <Table.Th className="ty-right">Jobs ended</Table.Th>
                <Table.Th className="ty-right">Started</Table.Th>
                <Table.Th w={40} aria-label="Delete" />
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {items.map((race) => (
                <Row key={race.id} race={race} />
              ))}
            </Table.Tbody>
          </Table>
        </TakeTable>
      )}
      {races.hasNextPage && (
        <Group>
          <Button
            variant="default"
            loading={races.isFetchingNextPage}
            onClick={() => void races.fetchNextPage()}
          >
            Show more
          </Button>
        </Group>
      )}
    </Stack>
  );
}

function Row({ race }: { race: RaceSummary }) {
  const may = mayChange(useWho(), race.owner);
  return (
    <Table.Tr>
      <Table.Td>
        <Link to="/races/$raceId" params={{ raceId: race.id }} className="ty-link">
          {race.name}
        </Link>{" "}
        <Owner of={race} />
      </Table.Td>
      <Table.Td>
        <RaceBadge race={race} />
      </Table.Td>
      <Table.Td data-label="Members">{race.members.join(", ")}</Table.Td>
      <Table.Td data-label="Model">
        <Group gap={6}>
          <span>
            <LongName name={race.model} />
          </span>
          <LabelBadges of={race} />
        </Group>
      </Table.Td>
      <Table.Td data-label="Jobs ended" className="ty-number ty-right">
        {race.jobs_ended} / {race.jobs}
      </Table.Td>
      <Table.Td data-label="Started" className="ty-right">
        {formatAge(Date.now() - Date.parse(race.created_at))}
      </Table.Td>
      <Table.Td className="ty-corner">
        {may && race.state !== "running" && <DeleteRace race={race} small />}
      </Table.Td>
    </Table.Tr>
  );
}
