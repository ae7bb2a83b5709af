import type { FieldProblem } from "../api/client";

/** What the service refused, by dotted path. */
export type Errors = FieldProblem[];

/** The message for the field at `path`; undefined where nothing is wrong with it. */
export function errorAt(errors: Errors, path: string): string | undefined {
  const own = errors.filter((error) => error.field === path);
  return own.length > 0 ? own.map(sentence).join(" ") : undefined;
}

/** The same for a field whose parts have none of their own: what is wrong with a part is said with its name. */
export function errorWithin(errors: Errors, path: string): string | undefined {
  const parts = errors
    .filter((error) => error.field.startsWith(`${path}.`))
    .map((error) => `${error.field.slice(path.length + 1)}: ${sentence(error)}`);
  return [errorAt(errors, path), ...parts].filter(Boolean).join(" ") || undefined;
}

/** Whether something at or below `path` was refused. */
export function hasErrorBelow(errors: Errors, path: string): boolean {
  return errors.some((error) => error.field === path || error.field.startsWith(`${path}.`));
}

export function sentence(error: FieldProblem): string {
  const rule = error.rule.charAt(0).toUpperCase() + error.rule.slice(1);
  return [rule, error.remedy]
    .filter(Boolean)
    .map((part) => part?.trimEnd().replace(/\.?$/, "."))
    .join(" ");
}

/** What breaks the same rule with the same remedy, together: one entry, and all its fields. */
export function grouped(errors: Errors): { error: FieldProblem; fields: string[] }[] {
  const found = new Map<string, { error: FieldProblem; fields: string[] }>();
  for (const error of errors) {
    const known = found.get(sentence(error));
    if (known) known.fields.push(error.field);
    else found.set(sentence(error), { error, fields: [error.field] });
  }
  return [...found.values()];
}

/** Names in one phrase: at most so many. */
export function several(names: string[], most = 6): string {
  const left = names.length - most;
  return names.slice(0, most).join(", ") + (left > 0 ? ` and ${left} more` : "");
}
