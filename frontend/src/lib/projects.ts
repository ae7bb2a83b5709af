import type { Project } from "../api/types";
import type { Cell } from "./csv";

const KINDS = [
  ["cuda", "GPUs"],
  ["cpu", "CPU slots"],
  ["rehearsal", "slots for rehearsals"],
] as const;

/** `3 of 8 GPUs, 0 of 2 CPU slots`: what a project holds of what it may; `nothing` where it holds none of what has no
 * limit. */
export function heldOf(project: Pick<Project, "held" | "cpu" | "cuda" | "rehearsal">): string {
  const parts = KINDS.flatMap(([kind, title]) => {
    const held = project.held[kind] ?? 0;
    const limit = project[kind] ?? null;
    if (limit === null) return held > 0 ? [`${held} ${title}`] : [];
    return [`${held} of ${limit} ${title}`];
  });
  return parts.join(", ") || "nothing";
}

/** `1.5 device hours of GPUs`: what counts for a project's share. */
export function usedBy({ used_s }: Pick<Project, "used_s">): string {
  const parts = KINDS.flatMap(([kind, title]) =>
    used_s[kind] ? [`${(used_s[kind] / 3600).toFixed(1)} device hours of ${title}`] : [],
  );
  return parts.join(", ") || "nothing";
}

/** Projects as rows of a file. */
export function projectRows(projects: Project[]): Cell[][] {
  return [
    [
      "project",
      "weight",
      ...KINDS.flatMap(([, title]) => [`${title} held`, `${title} at most`, `${title} used (s)`]),
      "waiting",
    ],
    ...projects.map((one) => [
      one.name,
      one.weight ?? 1,
      ...KINDS.flatMap(([kind]) => [one.held[kind] ?? 0, one[kind] ?? null, one.used_s[kind] ?? 0]),
      one.waiting,
    ]),
  ];
}
