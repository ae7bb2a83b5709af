import type { Staleness } from "../api/types";
import type { Cell } from "./csv";
import { formatFixed, NONE } from "./format";

/** A mean as the terminal writes it; a dash where there is none. */
export function formatMean(mean: number | null): string {
  return mean === null ? NONE : formatFixed(mean, 2);
}

/** All contributions in a sentence, and who has been ahead. */
export function stalenessWords({ drifts, everything, workers }: Staleness): string {
  const { contributions, mean, most } = everything;
  if (contributions === 0)
    return drifts
      ? "No contribution was applied, or the job ran before staleness was recorded."
      : "Workers of this job wait for one another in every step: no contribution is stale.";
  const number = (value: number | null) => (value ?? 0).toLocaleString("en");
  const all = `${number(contributions)} contributions, ${formatMean(mean)} updates stale on average, at most ${number(most)}`;
  const [first] = workers.toSorted((one, other) => other.most_ahead - one.most_ahead);
  if (!first || first.most_ahead === 0) return `${all}; nobody was ahead.`;
  const lead = `${number(first.most_ahead)} ${first.most_ahead === 1 ? "step" : "steps"}`;
  return `${all}; ${first.name} was up to ${lead} ahead of the slowest.`;
}

/** The workers as rows of a file, as they were counted. */
export function stalenessRows(workers: Staleness["workers"]): Cell[][] {
  return [
    [
      "worker",
      "steps",
      "steps ahead",
      "most steps ahead",
      "contributions",
      "mean staleness",
      "highest staleness",
    ],
    ...workers.map((one) => [
      one.name,
      one.steps,
      one.ahead,
      one.most_ahead,
      one.contributions,
      one.mean,
      one.most,
    ]),
  ];
}
