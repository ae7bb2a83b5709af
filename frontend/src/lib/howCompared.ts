import type { RaceView } from "../api/types";
import { USUAL_ROUNDS } from "./raceForm";

/** How a race's members ran: who joined later ran the rounds that were over without the others. */
export function howCompared({ spec, rankings }: RaceView): string {
  const joined = rankings.flatMap(({ standings }) => standings.filter(({ joined_s }) => joined_s !== null));
  const late = [...new Set(joined.map(({ name }) => name))].join(" and ");
  const who = late ? `everybody but ${late}` : "everybody";
  const { rounds = USUAL_ROUNDS } = spec;
  const how = rounds === 1 ? "In one round" : `In each of ${rounds} rounds`;
  const text = `${how} ${who} runs once, in an order that turns, and times are compared within the round, for all that have a place over the same rounds.`;
  return late
    ? `${text} ${late} joined later and ran the rounds that were over without the others: those times are compared with nobody's.`
    : text;
}
