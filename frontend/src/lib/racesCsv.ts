import type { RaceSummary } from "../api/types";
import type { Cell } from "./csv";

/** Races as rows of a file. */
export function raceRows(races: RaceSummary[]): Cell[][] {
  return [
    [
      "name",
      "id",
      "state",
      "members",
      "model",
      "rehearsed",
      "slowed",
      "jobs ended",
      "jobs failed",
      "jobs",
      "owner",
      "created",
      "ended",
    ],
    ...races.map((race) => [
      race.name,
      race.id,
      race.state,
      race.members.join(", "),
      race.model,
      race.rehearsed,
      race.slowed,
      race.jobs_ended,
      race.jobs_failed,
      race.jobs,
      race.owner,
      race.created_at,
      race.ended_at,
    ]),
  ];
}
