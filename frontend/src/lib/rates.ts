// Rates as people write them: by the rule of the service, so that what it would refuse is refused where it is typed.

const RATE = /^ *([0-9]{1,15}(?:\.[0-9]{1,15})?) *([kKMGT]?)(?:bit(?:\/s)?|bps) *$/;
const LONGEST = 60;
const [LEAST_BPS, MOST_BPS] = [1e3, 1e14];
const FACTORS: Record<string, number> = { "": 1, k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12 };

/** Bits per second of `300Mbit`, `10 Gbit/s` or `1.5Gbps`; null where the service would refuse it. */
export function bpsOf(text: string): number | null {
  const match = text.length <= LONGEST ? RATE.exec(text) : null;
  if (!match) return null;
  const bps = Number(match[1]) * (FACTORS[match[2] ?? ""] ?? 1);
  return bps >= LEAST_BPS && bps <= MOST_BPS ? Math.round(bps) : null;
}

/** What is wrong with rates, with the rule and the remedy; undefined: nothing. */
export function ratesProblem(rates: string[]): string | undefined {
  const wrong = rates.filter((rate) => bpsOf(rate) === null).map((rate) => `"${rate}"`);
  if (wrong.length === 0) return undefined;
  const said = wrong.length === 1 ? "is not a rate" : "are not rates";
  return `${wrong.join(", ")} ${said} from 1 kbit/s to 100 Tbit/s. Write it as 300Mbit or 10Gbit.`;
}

/** What was typed, one rate or several with commas, and all that is wrong with it. */
export function typedRates(typed: string): { rates: string[]; problem: string | undefined } {
  const rates = typed
    .split(/[,;]/)
    .map((rate) => rate.trim())
    .filter(Boolean);
  return { rates, problem: ratesProblem(rates) };
}

/** `rates` and those of `more` that are not among them, in the spelling of `known` where that has the same rate: the service
 * takes no rate twice. */
export function withRates(rates: string[], more: string[], known: string[]): string[] {
  const all = [...rates];
  for (const rate of more) {
    const spelled = [...all, ...known].find((other) => bpsOf(other) === bpsOf(rate)) ?? rate;
    if (!all.includes(spelled)) all.push(spelled);
  }
  return all;
}
