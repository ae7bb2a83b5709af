/**
 * What of a specification runs a person's own code when its plan is made: the model and the data that are entry
 * points, as one text; null where there is none, "incomplete" where one has no name yet.
 */
export function ownCode(spec: Record<string, unknown>): string | null {
  const sources = [spec.model, spec.data].map((source) => (source ?? {}) as Record<string, unknown>);
  const own = sources.filter(({ entrypoint }) => typeof entrypoint === "string");
  if (own.length === 0) return null;
  return own.some(({ entrypoint }) => entrypoint === "") ? INCOMPLETE : JSON.stringify(sources);
}

export const INCOMPLETE = "incomplete";
