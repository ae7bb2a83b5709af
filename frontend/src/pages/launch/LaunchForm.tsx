import { Accordion, Button, Grid, Group, SimpleGrid, Stack, Text } from "@mantine/core";
import { IconRocket } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useMemo, useState } from "react";
import { ApiProblem, client, unwrap } from "../../api/client";
import type { JobSpec, Override, SourceEntry } from "../../api/types";
import { Problem } from "../../components/Problem";
import { type Errors, hasErrorBelow } from "../../form/errors";
import { Misfits } from "../../form/Misfits";
import { ObjectFields, SchemaField } from "../../form/SchemaField";
import { type JsonSchema, resolve, setAt } from "../../form/schema";
import { humanize } from "../../lib/format";
import { newKey } from "../../lib/key";
import { BaselinePicker } from "./BaselinePicker";
import { PlanPreview } from "./PlanPreview";
import { SourcePicker } from "./SourcePicker";
import { StrategyPicker } from "./StrategyPicker";
import { usePlanPreview } from "./usePlanPreview";

interface Props {
  schema: JsonSchema;
  models: SourceEntry[];
  datasets: SourceEntry[];
  initial: Record<string, unknown>;
}

// What a person decides first. The rest has defaults that are good until one knows better.
const OPEN = ["model", "data", "strategy", "cluster", "network", "training", "rehearsal"];
const HEAD = ["name", "baseline", "fidelity"];

/** One section per object of the schema; the plan that follows from it beside it. */
export function LaunchForm({ schema, models, datasets, initial }: Props) {
  const navigate = useNavigate();
  const [spec, setSpec] = useState(initial);
  const [opened, setOpened] = useState(OPEN);
  // One key per content: sending the same form twice gives the same job.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key changes exactly when the content does
  const key = useMemo(newKey, [spec]);
  const preview = usePlanPreview(spec);
  const submit = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/jobs", {
          body: spec as unknown as JobSpec,
          params: { header: { "idempotency-key": key } },
        }),
      ),
    onSuccess: (job) => void navigate({ to: "/jobs/$jobId", params: { jobId: job.id } }),
  });

  const refused = submit.error ?? preview.error;
  const errors: Errors = refused instanceof ApiProblem ? refused.errors : [];
  const properties = schema.properties ?? {};
  const [sections, scalars] = partition(Object.keys(properties), (name) =>
    isSection(properties[name], schema),
  );
  // Right below the choice that makes it matter.
  const others = sections.filter((name) => name !== "rehearsal");
  const rehearsal = spec.fidelity === "rehearse" || hasErrorBelow(errors, "rehearsal");
  const shown = rehearsal && properties.rehearsal ? ["rehearsal", ...others] : others;
  const more = scalars.filter((name) => ![...HEAD, "overrides"].includes(name));
  const fields: Record<string, string[]> = { strategy: ["strategy", "overrides"], more };
  const withErrors = [...shown, "more"].filter((name) =>
    (fields[name] ?? [name]).some((path) => hasErrorBelow(errors, path)),
  );

  const change = (next: (previous: Record<string, unknown>) => unknown) => {
    submit.reset();
    setSpec((previous) => next(previous) as Record<string, unknown>);
  };
  const set = (path: string) => (value: unknown) => change((previous) => setAt(previous, path, value));
  const field = (name: string) => ({
    schema: properties[name] ?? {},
    root: schema,
    path: name,
    value: spec[name],
    errors,
    onChange: set(name),
  });
  const section = (name: string) => {
    if (name === "strategy")
      return (
        <>
          <StrategyPicker {...field(name)} />
          <SchemaField {...field("overrides")} />
        </>
      );
    if (name === "model") return <SourcePicker {...field(name)} entries={models} what="model" />;
    if (name === "data") return <SourcePicker {...field(name)} entries={datasets} what="data set" />;
    return <ObjectFields {...field(name)} />;
  };

  const item = (name: string, description: string | undefined, content: ReactNode) => (
    <Accordion.Item key={name} value={name} data-testid={`section-${name}`}>
      <Accordion.Control>
        <Group gap="xs">
          <Text fw={650}>{humanize(name)}</Text>
          <Text size="xs" c={withErrors.includes(name) ? "red" : "dimmed"}>
            {withErrors.includes(name) ? "needs a correction" : description}
          </Text>
        </Group>
      </Accordion.Control>
      <Accordion.Panel>{content}</Accordion.Panel>
    </Accordion.Item>
  );

  return (
    <form
      data-testid="launch-form"
      onBlur={preview.preview}
      onSubmit={(event) => {
        event.preventDefault();
        submit.mutate();
      }}
    >
      <Grid gap="md" align="flex-start">
        <Grid.Col span={{ base: 12, md: 7 }}>
          <Stack gap="md">
            <Misfits
              path=""
              value={spec}
              known={Object.keys(properties)}
              errors={errors}
              onChange={(changed) => change(() => changed)}
            />
            <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm" style={{ alignItems: "end" }}>
              <SchemaField {...field("name")} />
              <BaselinePicker {...field("baseline")} />
            </SimpleGrid>
            <SchemaField {...field("fidelity")} />
            <Accordion
              multiple
              variant="separated"
              value={[...new Set([...opened, ...withErrors])]}
              onChange={setOpened}
            >
              {shown.map((name) => item(name, properties[name]?.description, section(name)))}
              {item(
                "more",
                undefined,
                more.map((name) => <SchemaField key={name} {...field(name)} />),
              )}
            </Accordion>
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 5 }} style={{ position: "sticky", top: 68 }}>
          <Stack gap="md">
            {submit.error && <Problem error={submit.error} testId="launch-problem" />}
            <Button
              type="submit"
              size="md"
              loading={submit.isPending}
              leftSection={<IconRocket size={18} />}
              data-testid="launch"
            >
              Launch
            </Button>
            <PlanPreview
              preview={preview}
              overrides={(spec.overrides ?? []) as Override[]}
              errors={errors}
              onOverrides={set("overrides")}
            />
          </Stack>
        </Grid.Col>
      </Grid>
    </form>
  );
}

function partition(names: string[], first: (name: string) => boolean): [string[], string[]] {
  return [names.filter(first), names.filter((name) => !first(name))];
}

function isSection(property: JsonSchema | undefined, root: JsonSchema): boolean {
  return property !== undefined && resolve(property, root).kind === "object";
}
