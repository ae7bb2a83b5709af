import type { Ranking } from "../api/types";
import type { Cell } from "./csv";

/** A ranking as it is taken along: every figure in a column of its own, with its unit, as it was measured. */
export function rankingRows(ranking: Ranking): Cell[][] {
  const head = [
    "place",
    "strategy",
    "limited by",
    "iteration (ms)",
    "exposed (ms)",
    "samples/s",
    "times the fastest's",
    "times the fastest's, low end of 95 %",
    "times the fastest's, high end of 95 %",
    "rounds",
    "excluded because",
    "remark",
  ];
  const rows = ranking.standings.map((one) => [
    one.rank,
    one.name,
    one.limit?.kind,
    one.iteration_ms,
    one.exposed_ms,
    one.samples_per_s,
    one.times_fastest,
    one.low,
    one.high,
    one.rounds,
    one.out,
    one.remark,
  ]);
  return [head, ...rows];
}
