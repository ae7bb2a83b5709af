import type { Job, SourceEntry } from "../../api/types";
import { fill, initialValue, type JsonSchema } from "../../form/schema";

/** The schema's defaults with a template's or a file's specification laid over them. */
export function filled(schema: JsonSchema, spec: object): Record<string, unknown> {
  return fill(initialValue(schema, schema), spec) as Record<string, unknown>;
}

/** What the form starts with: another job's specification, with its checkpoint of step `begin` if that is given, or the schema's defaults and the first of each catalogue. */
export function startingSpec(
  schema: JsonSchema,
  models: SourceEntry[],
  datasets: SourceEntry[],
  from: Job | undefined,
  begin?: number,
): Record<string, unknown> {
  if (from) {
    // Its speed-up is measured against the job that it is a variation of, or against that job's own baseline.
    const baseline = from.baseline_id ?? from.id;
    if (begin === undefined) return filled(schema, { ...from.spec, name: `${from.name} again`, baseline });
    const checkpoint = { ...from.spec.checkpoint, start: { job: from.id, step: begin } };
    return filled(schema, { ...from.spec, name: `${from.name} from step ${begin}`, baseline, checkpoint });
  }
  const [model, data] = matching(models, datasets);
  return filled(schema, { model: chosen(model), data: chosen(data), training: { epochs: 5 } });
}

/** The first model and data set that fit together: a form should start with a job that can run. */
export function matching(models: SourceEntry[], datasets: SourceEntry[]): [SourceEntry?, SourceEntry?] {
  const real = (entries: SourceEntry[]) => entries.filter((entry) => entry.purpose === "training");
  for (const data of real(datasets)) {
    const shape = JSON.stringify(data.sample_shape);
    const model = real(models).find(
      (entry) => JSON.stringify(entry.sample_shape) === shape && entry.classes === data.classes,
    );
    if (model && data.sample_shape) return [model, data];
  }
  return [models[0], datasets[0]];
}

function chosen(entry: SourceEntry | undefined): object | undefined {
  if (entry === undefined) return undefined;
  const schema = entry.options_schema as JsonSchema;
  return { name: entry.name, entrypoint: null, directory: null, options: initialValue(schema, schema) };
}
