import type { Ranking, Standing } from "../api/types";
import type { Cell } from "./csv";

/** What limits a member, with its numbers; and whether it may be another program's doing. */
export function limitSaid({ sentence, crowded }: NonNullable<Standing["limit"]>): string {
  const others =
    "Other programs had more of this machine's processors than the job: a quieter one would tell more.";
  return crowded ? `${sentence}. ${others}` : sentence;
}

/** A ranking as it is taken along: every figure in a column of its own, with its unit, as it was measured. */
export function rankingRows(ranking: Ranking): Cell[][] {
  const head = [
    "place",
    "tied",
    "strategy",
    "limited by",
    "iteration (ms)",
    "exposed (ms)",
    "samples/s",
    "relative time",
    "relative time, low end of 95 %",
    "relative time, high end of 95 %",
    "too few rounds to tell",
    "rounds missing to tell",
    "speed-up over the first that was named",
    "speed-up, low end of 95 %",
    "speed-up, high end of 95 %",
    "rounds",
    "port busy (share)",
    "one port busy (share)",
    "processors busy (share)",
    "processors by its job (share)",
    "what limits it",
    "excluded because",
    "remark",
  ];
  const rows = ranking.standings.map((one) => [
    one.rank,
    one.tied ? "yes" : "no",
    one.name,
    one.limit?.kind,
    one.iteration_ms,
    one.exposed_ms,
    one.samples_per_s,
    one.times_fastest,
    one.low,
    one.high,
    one.unsure ? "yes" : "no",
    one.missing,
    one.speed_up,
    one.speed_up_low,
    one.speed_up_high,
    one.rounds,
    one.port_busy,
    one.one_port_busy,
    one.processors?.busy,
    one.processors?.own,
    one.limit?.sentence,
    one.out,
    one.remark,
  ]);
  return [head, ...rows];
}

/** Who was refused under every one of several conditions, for one reason, which is said once: `network.rate = '2 Mbit/s': `,
 * which each begins with, is the condition's own. */
export function refusedEverywhere(rankings: Ranking[]): { member: number; name: string; reason: string }[] {
  const [first, ...others] = rankings;
  if (first === undefined || others.length === 0) return [];
  return first.standings.flatMap(({ member, name, out, job_ids }) => {
    if (out === null || job_ids.length > 0) return [];
    const reason = withoutValue(out);
    const same = others.every(({ standings }) =>
      standings.some((one) => one.member === member && one.out !== null && withoutValue(one.out) === reason),
    );
    return same ? [{ member, name, reason }] : [];
  });
}

function withoutValue(reason: string): string {
  return reason.replace(/^[\w.]+ = ('[^']*'|"[^"]*"|[^\s:]+): /, "");
}
