import { Skeleton, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { datasetsQuery, jobQuery, jobSchemaQuery, modelsQuery, templatesQuery } from "../../api/queries";
import { Problem } from "../../components/Problem";
import { usePageTitle } from "../../components/usePageTitle";
import type { JsonSchema } from "../../form/schema";
import { LaunchForm } from "./LaunchForm";
import { type Opened, StartFrom } from "./StartFrom";
import { filled, startingSpec } from "./startingSpec";

const route = getRouteApi("/launch");

/** A job's specification as a form, from the service's own schema; empty, or filled from a job, a template or a file. */
export function LaunchPage() {
  const { from, template } = route.useSearch();
  const navigate = route.useNavigate();
  const schema = useQuery(jobSchemaQuery);
  const models = useQuery(modelsQuery);
  const datasets = useQuery(datasetsQuery);
  const templates = useQuery(templatesQuery);
  const source = useQuery({ ...jobQuery(from ?? ""), enabled: from !== undefined });
  usePageTitle("Launch");

  // A file has no address: it is what the form shows until the address changes.
  const address = from ?? template ?? "new";
  const [opened, setOpened] = useState<Opened & { address: string; number: number }>();
  const count = useRef(0);
  const file = opened?.address === address ? opened : undefined;

  const needed = [schema, models, datasets, templates, ...(from === undefined ? [] : [source])];
  const failed = needed.find((query) => query.error);
  const ready =
    schema.data && models.data && datasets.data && templates.data && (from === undefined || source.data);
  const chosen = templates.data?.find(({ name }) => name === template);
  const unknown = templates.data && template !== undefined && !chosen;
  const filledFrom = file?.file ?? source.data?.name;
  const initial = () => {
    const whole = schema.data as JsonSchema;
    if (file) return filled(whole, file.spec);
    if (chosen) return filled(whole, chosen.spec);
    return startingSpec(whole, models.data ?? [], datasets.data ?? [], source.data);
  };
  return (
    <Stack gap="md">
      <div>
        <Title order={1} fz={24}>
          Launch a job
        </Title>
        {filledFrom && (
          <Text c="dimmed" size="sm" data-testid="filled-from">
            Filled from {filledFrom}. Change what should differ.
          </Text>
        )}
      </div>
      {failed?.error && <Problem error={failed.error} onRetry={() => void failed.refetch()} />}
      {unknown && <Problem error={new Error(`There is no template ${template}. Choose another one.`)} />}
      {!failed && !ready && <Skeleton height={500} />}
      {ready && (
        <>
          <StartFrom
            templates={templates.data}
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
            models={models.data}
            datasets={datasets.data}
            initial={initial()}
          />
        </>
      )}
    </Stack>
  );
}
