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
  const asked = form
    ? members.flatMap((member) =>
        rates.map((rate) =>
          planned(jobOf(spec, rate === undefined ? form : { ...form, rates: [rate] }, member)),
        ),
      )
    : [];
  const [settled] = useDebouncedValue(asked.join("\n"), 400);
  const texts = settled === "" ? [] : settled.split("\n");
  const current = settled === asked.join("\n");
  const results = useQueries({
    queries: texts.map((text) => ({ ...planQuery(text), enabled: !code.held(JSON.parse(text)) })),
  });
  const checked: Checked[] = members.map((member, place) => {
    const own = current ? results.slice(place * rates.length, (place + 1) * rates.length) : [];
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
