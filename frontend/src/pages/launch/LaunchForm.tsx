import { Grid, SegmentedControl, SimpleGrid, Stack, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { ApiProblem, client, unwrap } from "../../api/client";
import { axesQuery, strategiesQuery } from "../../api/queries";
import type { JobSpec, Override, RaceSpec, SourceEntry } from "../../api/types";
import { type Errors, hasErrorBelow } from "../../form/errors";
import { Misfits } from "../../form/Misfits";
import { ObjectFields, SchemaField } from "../../form/SchemaField";
import { initialValue, isObject, type JsonSchema, resolve, setAt, withChoices } from "../../form/schema";
import { newKey } from "../../lib/key";
import {
  asOneJob,
  jobsOf,
  mostWorkers,
  ofTheJob,
  type RaceForm,
  raceOf,
  withOwnHosts,
} from "../../lib/raceForm";
import { sectionSummary } from "../../lib/sectionSummary";
import { BaselinePicker } from "./BaselinePicker";
import { LaunchBar } from "./LaunchBar";
import { MeasureProfile } from "./MeasureProfile";
import { PlanPreview } from "./PlanPreview";
import { RaceConditions } from "./RaceConditions";
import { RaceFields } from "./RaceFields";
import { RaceOverrides } from "./RaceOverrides";
import { RacePreview } from "./RacePreview";
import { Sections } from "./Sections";
import { SourcePicker } from "./SourcePicker";
import { StrategyPicker } from "./StrategyPicker";
import { useDraft } from "./useDraft";
import { useHeldCode } from "./useHeldCode";
import { usePlanPreview } from "./usePlanPreview";
import { useRacePreview } from "./useRacePreview";

interface Props {
  schema: JsonSchema;
  models: SourceEntry[];
  datasets: SourceEntry[];
  initial: Record<string, unknown>;
  /** Who races, where a race is filled in. */
  initialRace: RaceForm | undefined;
  /** Who races where a person turns one job into a race. */
  race: RaceForm;
  /** Whether `initial` stands in place of what was typed here before. */
  fresh: boolean;
}

const CONDITIONS = "Numbers of workers and batches that differ; other jobs meanwhile.";
const HEAD = ["name", "baseline", "fidelity"];

/** One section per object of the schema; what follows from them beside it. It launches one job, or a race of several
 * strategies on it. */
export function LaunchForm({ schema, models, datasets, initial, initialRace, race: offered, fresh }: Props) {
  const navigate = useNavigate();
  const begun = { spec: initial, form: initialRace ?? offered, racing: initialRace !== undefined };
  const { first, found, changed, keep, drop } = useDraft(begun, fresh);
  const [spec, setSpec] = useState(first.spec);
  const [form, setForm] = useState(first.form);
  const [racing, setRacing] = useState(first.racing);
  useEffect(() => keep({ spec, form, racing }), [keep, spec, form, racing]);
  // Fields have what is half typed by themselves: whoever starts over gets new ones.
  const [starts, setStarts] = useState(0);
  // What nobody can do without comes first, and stays there while it is filled in.
  const [needed] = useState(() => unfinished(initial));
  const [opened, setOpened] = useState(needed);
  // One key per content: sending the same form twice gives the same job.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key changes exactly when the content does
  const key = useMemo(newKey, [spec, form, racing]);
  const code = useHeldCode(spec);
  const places = useQuery(axesQuery).data?.find(({ name }) => name === "input.where")?.values ?? [];
  const strategies = useQuery(strategiesQuery).data ?? [];
  const optionsOf = (strategy: string) => {
    const schema = strategies.find(({ name }) => name === strategy)?.options_schema as JsonSchema | undefined;
    return schema ? (initialValue(schema, schema) as object) : {};
  };
  const preview = usePlanPreview(spec, code, !racing);
  const members = useRacePreview(spec, racing ? form : undefined, code);
  const submit = useMutation({
    mutationFn: async () => {
      const params = { header: { "idempotency-key": key } };
      if (racing) {
        const body = raceOf(spec, form) as unknown as RaceSpec;
        const { id } = await unwrap(client.POST("/api/v1/races", { body, params }));
        drop();
        return navigate({ to: "/races/$raceId", params: { raceId: id } });
      }
      const body = spec as unknown as JobSpec;
      const { id } = await unwrap(client.POST("/api/v1/jobs", { body, params }));
      drop();
      return navigate({ to: "/jobs/$jobId", params: { jobId: id } });
    },
  });

  const planned = racing ? members.errors : errorsOf(preview.error);
  const errors: Errors = submit.error ? ofTheJob(errorsOf(submit.error)) : planned;
  const properties = schema.properties ?? {};
  const isSection = (name: string) => resolve(properties[name] ?? {}, schema).kind === "object";
  const names = Object.keys(properties);
  // Right below the choice that makes it matter.
  const rehearsal = spec.fidelity === "rehearse" || hasErrorBelow(errors, "rehearsal");
  const shown = names.filter(
    (name) => isSection(name) && name !== "rehearsal" && !(racing && name === "strategy"),
  );
  if (rehearsal && properties.rehearsal) shown.unshift("rehearsal");
  const more = names.filter((name) => !isSection(name) && ![...HEAD, "overrides"].includes(name));

  // While a number is typed there may be none: what was last there is what hosts are compared with.
  const workers = useRef(1);
  workers.current = mostWorkers(spec, form) ?? workers.current;
  const change = (next: (previous: Record<string, unknown>) => unknown) => {
    submit.reset();
    const before = workers.current;
    setSpec((previous) => {
      const changed = next(previous) as Record<string, unknown>;
      return racing ? withOwnHosts(changed, form, before) : changed;
    });
  };
  const changeRace = (next: RaceForm) => {
    submit.reset();
    setForm(next);
    const before = workers.current;
    setSpec((previous) => withOwnHosts(previous, next, before));
  };
  const startOver = () => {
    submit.reset();
    const filledIn = drop();
    setSpec(filledIn.spec);
    setForm(filledIn.form);
    setRacing(filledIn.racing);
    setStarts((count) => count + 1);
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
  const content: Record<string, () => ReactNode> = {
    strategy: () => (
      <>
        <StrategyPicker {...field("strategy")} />
        <SchemaField {...field("overrides")} />
      </>
    ),
    model: () => (
      <SourcePicker {...field("model")} entries={models} what="model" beside={folderOf(spec.data)} />
    ),
    data: () => (
      <SourcePicker {...field("data")} entries={datasets} what="data set" beside={folderOf(spec.model)} />
    ),
    input: () => (
      <ObjectFields
        {...field("input")}
        schema={withChoices(
          properties.input ?? {},
          schema,
          "where",
          places.filter(({ available }) => available).map(({ name }) => name),
        )}
      />
    ),
    rehearsal: () => (
      <>
        <ObjectFields {...field("rehearsal")} />
        <MeasureProfile spec={spec} onMeasured={set("rehearsal.profile")} />
      </>
    ),
    conditions: () => <RaceConditions form={form} errors={errors} onForm={changeRace} />,
    more: () => more.map((name) => <SchemaField key={name} {...field(name)} />),
  };
  const fields: Record<string, string[]> = {
    strategy: ["strategy", "overrides"],
    conditions: ["workers", "batches"],
    more,
  };
  const sections = [...(racing ? ["conditions"] : []), ...shown, "more"].map((name) => ({
    name,
    description: name === "conditions" ? CONDITIONS : properties[name]?.description,
    wrong: (fields[name] ?? [name]).some((path) => hasErrorBelow(errors, path)),
    content: content[name]?.() ?? <ObjectFields {...field(name)} />,
  }));
  const sectionsOf = (first: boolean) => (
    <Sections
      sections={sections.filter(({ name }) => needed.includes(name) === first)}
      spec={spec}
      opened={opened}
      onOpened={setOpened}
    />
  );
  const network = isObject(spec.network) ? spec.network : {};
  const overrides = (spec.overrides ?? []) as Override[];

  return (
    <form
      key={starts}
      data-testid="launch-form"
      onBlur={code.release}
      onKeyDown={(event) => {
        // Enter in a field would launch everything, before anybody has looked at it.
        if (event.key === "Enter" && event.target instanceof HTMLInputElement) event.preventDefault();
      }}
      onSubmit={(event) => {
        event.preventDefault();
        submit.mutate();
      }}
    >
      <Grid gap="md" align="flex-start">
        <Grid.Col span={{ base: 12, md: 7 }}>
          <Stack gap="md">
            {found && (
              <Text size="sm" c="dimmed" data-testid="draft-found">
                This is a draft: what you changed here before. This tab keeps it until it is launched, or
                until you start over.
              </Text>
            )}
            <Misfits
              path=""
              value={spec}
              known={names}
              errors={errors}
              onChange={(changed) => change(() => changed)}
            />
            <SegmentedControl
              aria-label="What is launched"
              value={racing ? "race" : "job"}
              onChange={(what) => {
                submit.reset();
                setRacing(what === "race");
                if (what === "job") setSpec((previous) => asOneJob(previous, form, optionsOf));
              }}
              data={[
                { value: "job", label: "One job" },
                { value: "race", label: "Race strategies" },
              ]}
              style={{ alignSelf: "flex-start" }}
              data-testid="what-is-launched"
            />
            {needed.length > 0 && sectionsOf(true)}
            <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm" style={{ alignItems: "end" }}>
              <SchemaField {...field("name")} />
              {racing ? <SchemaField {...field("fidelity")} /> : <BaselinePicker {...field("baseline")} />}
            </SimpleGrid>
            {!racing && <SchemaField {...field("fidelity")} />}
            {racing && (
              <>
                <RaceFields
                  form={form}
                  errors={errors}
                  workers={workers.current}
                  hosts={typeof network.hosts === "number" ? network.hosts : null}
                  onForm={changeRace}
                  onHosts={set("network.hosts")}
                />
                <RaceOverrides
                  overrides={overrides}
                  members={form.members}
                  errors={errors}
                  onOverrides={set("overrides")}
                />
              </>
            )}
            {sectionsOf(false)}
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 5 }} style={{ position: "sticky", top: 68 }}>
          {racing ? (
            <RacePreview form={form} preview={members} />
          ) : (
            <PlanPreview
              preview={preview}
              overrides={overrides}
              errors={errors}
              onOverrides={set("overrides")}
            />
          )}
        </Grid.Col>
      </Grid>
      <LaunchBar
        label={racing ? "Start the race" : "Launch"}
        summary={
          racing
            ? jobsOf(form)
            : ["model", "strategy", "cluster"].map((name) => sectionSummary(name, spec)).join(" · ")
        }
        error={submit.error}
        loading={submit.isPending}
        onStartOver={changed ? startOver : undefined}
      />
    </form>
  );
}

function folderOf(source: unknown): string {
  return isObject(source) ? String(source.directory ?? "") : "";
}

function errorsOf(error: Error | null): Errors {
  return error instanceof ApiProblem ? error.errors : [];
}

/** Sections that nobody can do without: code of one's own that has no name yet. */
function unfinished(spec: Record<string, unknown>): string[] {
  return ["model", "data"].filter((name) => {
    const source = spec[name];
    return isObject(source) && source.entrypoint === "";
  });
}
