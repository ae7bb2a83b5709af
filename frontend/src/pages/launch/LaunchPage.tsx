import { Skeleton, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { ForMembers } from "../../access/ForMembers";
import {
  datasetsQuery,
  jobQuery,
  jobSchemaQuery,
  modelsQuery,
  startsQuery,
  strategiesQuery,
  templatesQuery,
} from "../../api/queries";
import { rankingsQuery } from "../../api/raceQueries";
import { Problem } from "../../components/Problem";
import { usePageTitle } from "../../components/usePageTitle";
import type { JsonSchema } from "../../form/schema";
import { againOf, USUAL_ROUNDS } from "../../lib/raceForm";
import { formatQuery } from "../../lib/search";
import { StartCards } from "../start/StartCards";
import { LaunchForm } from "./LaunchForm";
import { MayNotLaunch } from "./MayNotLaunch";
import { type Opened, StartFrom } from "./StartFrom";
import { filled, startingSpec } from "./startingSpec";

const route = getRouteApi("/launch");

/** The form, for who may submit it. */
export function LaunchPage() {
  const { from, again } = route.useSearch();
  usePageTitle("Launch");
  return (
    <Stack gap="md">
      <Title order={1} fz={24}>
        Launch
      </Title>
      <ForMembers otherwise={<MayNotLaunch job={from} race={again} />}>
        <Specification />
      </ForMembers>
    </Stack>
  );
}

/** A job's or a race's specification as a form, from the service's own schema; empty, or filled from a start, a job, a
 * template or a file. */
function Specification() {
  const search = route.useSearch();
  const { from, begin, template, start, race, again } = search;
  const navigate = route.useNavigate();
  const schema = useQuery(jobSchemaQuery);
  const models = useQuery(modelsQuery);
  const datasets = useQuery(datasetsQuery);
  const templates = useQuery(templatesQuery);
  const starts = useQuery(startsQuery);
  const strategies = useQuery(strategiesQuery);
  const source = useQuery({ ...jobQuery(from ?? ""), enabled: from !== undefined });
  const before = useQuery({ ...rankingsQuery(again ?? ""), enabled: again !== undefined });

  // A file has no address: it is what the form shows until the address changes.
  const address = formatQuery({ ...search });
  const [opened, setOpened] = useState<Opened & { address: string; number: number }>();
  const count = useRef(0);
  const file = opened?.address === address ? opened : undefined;

  const needed = [schema, models, datasets, templates, starts, strategies];
  const wanted = [...(from === undefined ? [] : [source]), ...(again === undefined ? [] : [before])];
  const failed = [...needed, ...wanted].find((query) => query.error);
  const ready = [...needed, ...wanted].every((query) => query.data);
  const raced = before.data && againOf(before.data.spec, search);
  const chosen = templates.data?.find(({ name }) => name === template);
  const begun = file ? undefined : starts.data?.find(({ name }) => name === start);
  const unknown = templates.data && template !== undefined && !chosen;
  const filledFrom = file?.file ?? source.data?.name ?? before.data?.name;
  const initial = () => {
    const whole = schema.data as JsonSchema;
    if (file) return filled(whole, file.spec);
    if (chosen) return filled(whole, chosen.spec);
    if (raced) return filled(whole, raced.job);
    if (begun) return filled(whole, begun.job);
    return startingSpec(whole, models.data ?? [], datasets.data ?? [], source.data, begin);
  };
  const recommended = (strategies.data ?? []).filter((entry) => entry.recommended);
  const offered = {
    members: recommended.map(({ name }) => ({ strategy: name })),
    rates: [],
    rounds: USUAL_ROUNDS,
  };
  const filledIn =
    raced?.form ?? (begun ? { ...offered, members: begun.members, rounds: begun.rounds } : offered);
  return (
    <>
      {filledFrom && (
        <Text c="dimmed" size="sm" data-testid="filled-from">
          Filled from {filledFrom}. Change what should differ.
        </Text>
      )}
      {failed?.error && <Problem error={failed.error} onRetry={() => void failed.refetch()} />}
      {unknown && <Problem error={new Error(`There is no template ${template}. Choose another one.`)} />}
      {!failed && !ready && <Skeleton height={500} />}
      {ready && (
        <>
          <StartCards chosen={begun?.name} />
          <StartFrom
            templates={templates.data ?? []}
            chosen={file ? undefined : chosen}
            onTemplate={(name) => {
              setOpened(undefined);
              void navigate({ search: { template: name } });
            }}
            onOpened={(read) => {
              count.current += 1;
              setOpened({ ...read, address, number: count.current });
            }}
          />
          <LaunchForm
            key={file ? `file ${file.number}` : address}
            schema={schema.data as JsonSchema}
            models={models.data ?? []}
            datasets={datasets.data ?? []}
            initial={initial()}
            initialRace={!file && (raced || begun || race) ? filledIn : undefined}
            race={offered}
            fresh={file !== undefined}
          />
        </>
      )}
    </>
  );
}
