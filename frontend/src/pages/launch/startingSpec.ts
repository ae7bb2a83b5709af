import type { Job, SourceEntry } from "../../api/types";
import { fill, initialValue, type JsonSchema } from "../../form/schema";

/** What the form starts with: another job's specification, or the schema's defaults and the first of each catalogue. */
export function startingSpec(
  schema: JsonSchema,
  models: SourceEntry[],
  datasets: SourceEntry[],
  from: Job | undefined,
): Record<string, unknown> {
  const empty = initialValue(schema, schema) as Record<string, unknown>;
  if (from) {
    // Its speed-up is measured against the job that it is a variation of, or against that job's own baseline.
    const spec = { ...from.spec, name: `${from.name} again`, baseline: from.baseline_id ?? from.id };
    return fill(empty, spec) as Record<string, unknown>;
  }
  return fill(empty, {
    model: first(models),
    data: first(datasets),
    training: { ...(empty.training as object), epochs: 5 },
  }) as Record<string, unknown>;
}

function first(entries: SourceEntry[]): object | undefined {
  const entry = entries.find((candidate) => candidate.purpose === "training") ?? entries[0];
  if (entry === undefined) return undefined;
  const schema = entry.options_schema as JsonSchema;
  return { name: entry.name, entrypoint: null, directory: null, options: initialValue(schema, schema) };
}
