// Which plan of a race is best, as rows. No React here.
import type { BestCondition, RaceBest } from "../api/types";
import type { Cell } from "./csv";
import { formatFixed, NONE } from "./format";

type Score = RaceBest["score"];
type Criterion = BestCondition["criteria"][number];
type Place = Criterion["places"][number];

/** Under this condition jobs were evaluated: there is something to learn from. */
export function isEvaluated(condition: BestCondition): boolean {
  return condition.curves.some(({ points }) => points.length > 0);
}

/** What a member attained by one criterion, `94.31 %`, and its interval. */
export interface Attained {
  value: string;
  ends: string | null;
  /** It is the best by this criterion, and some other is behind. */
  best: boolean;
  /** There are too few rounds to tell whether it is behind. */
  unsure: boolean;
}

/** A member, and what it attained by each criterion; null where it is not compared. */
export interface BestRow {
  member: number;
  name: string;
  attained: (Attained | null)[];
}

/** Every member that a criterion compares, in the race's order. */
export function bestRows(condition: BestCondition, score: Score): BestRow[] {
  const names = new Map<number, string>();
  for (const { places } of condition.criteria) for (const { member, name } of places) names.set(member, name);
  return [...names].sort(byMember).map(([member, name]) => ({
    member,
    name,
    attained: condition.criteria.map((criterion) => {
      const place = criterion.places.find((one) => one.member === member);
      return place ? attained(criterion, place, score) : null;
    }),
  }));
}

function byMember([one]: [number, string], [other]: [number, string]): number {
  return one - other;
}

function attained(criterion: Criterion, place: Place, score: Score): Attained {
  const said = (value: number) =>
    criterion.name === "speed" ? `${formatFixed(value, 1)} /s` : scoreSaid(value, score);
  const { value, low, high } = place;
  return {
    value: said(value),
    ends: low === null || high === null ? null : `${said(low)} to ${said(high)}`,
    best: !place.unsure && criterion.best.includes(place.name) && criterion.places.some(({ worse }) => worse),
    unsure: place.unsure,
  };
}

/** `94.31 %`, `2.345`. */
export function scoreSaid(value: number | null, score: Score): string {
  if (value === null) return NONE;
  return score === "accuracy" ? `${formatFixed(100 * value, 2)} %` : formatFixed(value, 3);
}

/** Every figure by every criterion, as it was measured. */
export function bestCsv(condition: BestCondition): Cell[][] {
  const head = [
    "criterion",
    "at",
    "plan",
    "value",
    "low end of 95 %",
    "high end of 95 %",
    "behind",
    "behind, low end of 95 %",
    "behind, high end of 95 %",
    "certainly behind",
    "too few to tell",
    "rounds missing to tell",
    "rounds",
  ];
  const rows = condition.criteria.flatMap(({ title, at, rounds, places }) =>
    places.map((one) => [
      title,
      at,
      one.name,
      one.value,
      one.low,
      one.high,
      one.behind,
      one.behind_low,
      one.behind_high,
      one.worse ? "yes" : "no",
      one.unsure ? "yes" : "no",
      one.missing,
      rounds,
    ]),
  );
  return [head, ...rows];
}
