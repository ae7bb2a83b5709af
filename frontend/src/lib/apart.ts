import type { Summary } from "../api/types";

interface Named {
  id: string;
  name: string;
}

/** An id is shown with as many characters, or with more where these do not tell it apart. */
const SHORT = 13;

/** What stands beside one another, by id: its name, and where several have it, the short id of each, which the terminal's
 * commands take, too. The service does the same (`backend/called.py`). */
export function namesApart(shown: readonly Named[]): Map<string, string> {
  const names = new Map(shown.map(({ id, name }) => [id, name]));
  const counts = new Map<string, number>();
  for (const name of names.values()) counts.set(name, (counts.get(name) ?? 0) + 1);
  const ordered = [...names.keys()].sort();
  return new Map(
    ordered.map((id, place) => {
      const name = names.get(id) ?? "";
      if ((counts.get(name) ?? 0) < 2) return [id, name];
      const beside = [ordered[place - 1], ordered[place + 1]].map((other) => shared(id, other ?? "") + 1);
      return [id, `${name} (${id.slice(0, Math.max(SHORT, ...beside))})`];
    }),
  );
}

/** The same jobs, called by these names. */
export function toldApart<T extends Named>(shown: T[]): T[] {
  const names = namesApart(shown);
  return shown.map((one) => {
    const name = names.get(one.id) ?? one.name;
    return name === one.name ? one : { ...one, name };
  });
}

/** What a job's baseline is called beside it. */
export function baselineName(job: Named, speedUp: NonNullable<Summary["speed_up"]>): string {
  const { baseline_id: id, baseline_name: name } = speedUp;
  return id === null ? name : (namesApart([job, { id, name }]).get(id) ?? name);
}

/** Characters that both begin with. */
function shared(one: string, other: string): number {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  return at;
}
