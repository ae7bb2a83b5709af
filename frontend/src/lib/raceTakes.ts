/** `about 40 s`, `about 12 min`: nobody knows it to the second. */
export function about(seconds: number): string {
  if (seconds < 90) return `about ${Math.round(seconds)} s`;
  return seconds < 7200 ? `about ${Math.round(seconds / 60)} min` : `about ${Math.round(seconds / 3600)} h`;
}

/** How long a race is expected to take, as people read it. `expected`: seconds of a job of each plan that can run, as far
 * as they are known; `conditions`: so many times as many there are where plans were asked of one of them only. */
export function raceTakes(
  expected: (number | null | undefined)[],
  rounds: number,
  conditions: number,
): string | undefined {
  if (expected.length === 0) return undefined;
  const known = expected.filter((seconds) => typeof seconds === "number");
  const jobs = expected.length * conditions * rounds;
  if (known.length === 0)
    return "How long it takes is not known yet: that is declared, or learned from three jobs like each of these.";
  const takes = about(known.reduce((sum, seconds) => sum + seconds, 0) * rounds);
  return known.length * rounds === jobs
    ? `Expected to take ${takes}.`
    : `Expected to take ${takes} for ${known.length * rounds} of ${jobs} jobs; of the others it is not known yet.`;
}
