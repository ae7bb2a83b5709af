import { Skeleton, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { datasetsQuery, jobQuery, jobSchemaQuery, modelsQuery } from "../../api/queries";
import { Problem } from "../../components/Problem";
import { usePageTitle } from "../../components/usePageTitle";
import type { JsonSchema } from "../../form/schema";
import { LaunchForm } from "./LaunchForm";
import { startingSpec } from "./startingSpec";

const route = getRouteApi("/launch");

/** A job's specification as a form, from the service's own schema; empty or filled from another job. */
export function LaunchPage() {
  const { from } = route.useSearch();
  const schema = useQuery(jobSchemaQuery);
  const models = useQuery(modelsQuery);
  const datasets = useQuery(datasetsQuery);
  const source = useQuery({ ...jobQuery(from ?? ""), enabled: from !== undefined });
  usePageTitle("Launch");

  const needed = from === undefined ? [schema, models, datasets] : [schema, models, datasets, source];
  const failed = needed.find((query) => query.error);
  const ready = schema.data && models.data && datasets.data && (from === undefined || source.data);
  return (
    <Stack gap="md">
      <div>
        <Title order={1} fz={24}>
          Launch a job
        </Title>
        {source.data && (
          <Text c="dimmed" size="sm">
            Filled from {source.data.name}. Change what should differ.
          </Text>
        )}
      </div>
      {failed?.error && <Problem error={failed.error} onRetry={() => void failed.refetch()} />}
      {!failed && !ready && <Skeleton height={500} />}
      {ready && (
        <LaunchForm
          key={from ?? "new"}
          schema={schema.data as JsonSchema}
          models={models.data}
          datasets={datasets.data}
          initial={startingSpec(schema.data as JsonSchema, models.data, datasets.data, source.data)}
        />
      )}
    </Stack>
  );
}
