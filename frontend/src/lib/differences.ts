/** One setting in which specifications differ. */
export interface Difference {
  /** `training.lr`. */
  path: string;
  /** In the specifications' order; undefined where one has no such setting. */
  values: unknown[];
}

// What names a job is no setting of it.
const NAMES = ["name", "baseline"];

/** Every setting that is not the same in all specifications, in the order in which they are written. */
export function differences(specs: object[]): Difference[] {
  const flat = specs.map((spec) => new Map(entries(spec, "")));
  const paths = new Set(flat.flatMap((settings) => [...settings.keys()]));
  return [...paths]
    .filter((path) => !NAMES.includes(path))
    .map((path) => ({ path, values: flat.map((settings) => settings.get(path)) }))
    .filter(({ values }) => new Set(values.map((value) => JSON.stringify(value))).size > 1);
}

function entries(value: unknown, path: string): [string, unknown][] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [[path, value]];
  return Object.entries(value).flatMap(([key, inner]) => entries(inner, path ? `${path}.${key}` : key));
}

/** A setting's value for people. */
export function settingText(value: unknown): string {
  if (value === undefined) return "–";
  if (value === null) return "none";
  return typeof value === "string" ? value : JSON.stringify(value);
}
