import { useDebouncedValue } from "@mantine/hooks";
import { useQueries } from "@tanstack/react-query";
import { ApiProblem } from "../../api/client";
import type { PlanView } from "../../api/types";
import type { Errors } from "../../form/errors";
import { jobOf, nameOf, type RaceForm } from "../../lib/raceForm";
import { raceTakes } from "../../lib/raceTakes";
import type { useHeldCode } from "./useHeldCode";
import { planned, planQuery } from "./usePlanPreview";

/** Whether one of those who race can run: its plan, or why there is none; neither while that is asked. */
export interface Checked {
  /** Its place among the members: one strategy may be there several times, with other options. */
  place: number;
  strategy: string;
  /** With its options. */
  name: string;
  /** At the first rate at which it can run. */
  plan: PlanView | undefined;
  /** Where it can run at none of the rates. */
  error: Error | null;
  /** Rates at which it cannot run, with the reason, where it can at others. */
  not: { rate: string; error: Error }[];
}

/** Which members can run the form's job, before anything is started. Nothing is asked where `form` is undefined. */
export function useRacePreview(
  spec: Record<string, unknown>,
  form: RaceForm | undefined,
  code: ReturnType<typeof useHeldCode>,
) {
  const members = form?.members ?? [];
  const rates = form && form.rates.length > 1 ? form.rates : [undefined];
  // By member: its plan at each rate.
  const asked = JSON.stringify(
    form
      ? members.map((member) =>
          rates.map((rate) =>
            planned(jobOf(spec, rate === undefined ? form : { ...form, rates: [rate] }, member)),
          ),
        )
      : [],
  );
  const [settled] = useDebouncedValue(asked, 400);
  const texts = JSON.parse(settled) as string[][];
  const current = settled === asked;
  const ask = (text: string, wanted: boolean) => ({
    ...planQuery(text),
    enabled: wanted && !code.held(JSON.parse(text)),
  });
  const firsts = useQueries({ queries: texts.flatMap(([first]) => (first ? [ask(first, true)] : [])) });
  // A member's other rates are asked for once the first one is answered: who goes on typing has not asked for all.
  const others = useQueries({
    queries: texts.flatMap(([, ...more], place) =>
      more.map((text) => ask(text, Boolean(firsts[place]?.data || firsts[place]?.error))),
    ),
  });
  const results = [...firsts, ...others];
  const checked: Checked[] = members.map((member, place) => {
    const more = rates.length - 1;
    const own = current
      ? [...firsts.slice(place, place + 1), ...others.slice(place * more, (place + 1) * more)]
      : [];
    const refused = rates.flatMap((rate, at) => {
      const error = own[at]?.error;
      return error ? [{ rate: rate ?? "", error }] : [];
    });
    const known = own.length > 0 && own.every(({ data, error }) => data || error);
    return {
      place,
      strategy: member.strategy,
      name: nameOf(member),
      plan: known ? own.find(({ data, error }) => data && !error)?.data : undefined,
      error: refused.length === rates.length ? (refused[0]?.error ?? null) : null,
      not: refused.length < rates.length ? refused : [],
    };
  });
  return {
    checked,
    /** What is wrong with the job itself: what everybody is refused for. */
    errors: common(checked),
    /** How long the race takes; undefined while that is asked, or where nobody can run. */
    takes:
      form && current && results.every(({ data, error }) => data || error)
        ? raceTakes(
            results.flatMap(({ data, error }) => (data && !error ? [data.expected_s] : [])),
            form.rounds,
            Math.max(1, form.workers?.length ?? 0) * Math.max(1, form.batches?.length ?? 0),
          )
        : undefined,
    held: code.held(spec),
    preview: code.release,
    checking: results.some(({ isFetching }) => isFetching),
    /** Ask once more for all of them: a person's code may be another one now. Undefined: there is nobody, or it must
     * wait for the code. */
    again:
      results.length > 0 && !code.held(spec)
        ? () => {
            for (const one of results) void one.refetch();
          }
        : undefined,
  };
}

function common(checked: Checked[]): Errors {
  const said = checked.map(({ error }) => (error instanceof ApiProblem ? error.errors : []));
  const [first = [], ...others] = said;
  const same = (error: Errors[number]) =>
    others.every((errors) => errors.some(({ field, rule }) => field === error.field && rule === error.rule));
  return first.filter(same);
}
