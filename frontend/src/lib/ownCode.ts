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

/** What is wrong with an entry point as it stands in the form, which also takes the file; null where nothing is. */
export function entryProblem(text: string, directory = ""): string | null {
  const short = inFolder(text, "/");
  if (short && !inFolder(text, directory))
    return `Write ${short.entrypoint}, and the folder that holds ${short.entrypoint.split(":")[0]}.py as directory.`;
  if (text === "" || fromFile(text) || short || isModule(text)) return null;
  return "Write module:function, as net:build, or with its file, as /home/me/net.py:build.";
}

/** What an entry point and its directory become once the field is left; null: what they are. `beside`: the folder of the
 * other of model and data, where this one has none. */
export function entered(
  text: string,
  directory: string,
  beside = "",
): { directory: string; entrypoint: string } | null {
  const found = fromFile(text) ?? inFolder(text, directory || beside);
  if (found || directory || !beside || !isModule(text)) return found;
  return { directory: beside, entrypoint: text };
}

function isModule(text: string): boolean {
  return /^\w+(\.\w+)*:\w+$/.test(text) && !text.includes(".py:");
}

/** What an entry point that names a file means in this folder, `net.py:build` or `nets/net.py:build`: the same as if the
 * whole path had been written. Null where it names no file below the folder. */
export function inFolder(text: string, directory: string): { directory: string; entrypoint: string } | null {
  const found = /^\s*(?:\.\/)?((?:[\w-]+\/)*)(\w+)\.py:(\w+)\s*$/.exec(text);
  if (!found || !directory.startsWith("/")) return null;
  const folder = `${directory.replace(/\/+$/, "")}/${found[1]}`.replace(/(.)\/+$/, "$1");
  return { directory: folder, entrypoint: `${found[2]}:${found[3]}` };
}

/** An entry point that is written with its file, `/home/me/nets/mine.py:build`, as the service wants it: the folder, and
 * `mine:build`. Null where it names no file. */
export function fromFile(text: string): { directory: string; entrypoint: string } | null {
  const found = /^\s*(\/.*)\/([^/]+)\.py:(\w+)\s*$/.exec(text);
  return found && { directory: found[1] as string, entrypoint: `${found[2]}:${found[3]}` };
}
