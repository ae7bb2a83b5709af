import { useDebouncedValue } from "@mantine/hooks";
import { useQueries } from "@tanstack/react-query";
import { ApiProblem } from "../../api/client";
import type { PlanView } from "../../api/types";
import type { Errors } from "../../form/errors";
import { jobOf, nameOf, type RaceForm } from "../../lib/raceForm";
import type { useHeldCode } from "./useHeldCode";
import { planned, planQuery } from "./usePlanPreview";

/** Whether one of those who race can run: its plan, or why there is none; neither while that is asked. */
export interface Checked {
  /** Its place among the members: one strategy may be there several times, with other options. */
  place: number;
  strategy: string;
  /** With its options. */
  name: string;
  plan: PlanView | undefined;
  error: Error | null;
}

/** Which members can run the form's job, before anything is started. Nothing is asked where `form` is undefined. */
export function useRacePreview(
  spec: Record<string, unknown>,
  form: RaceForm | undefined,
  code: ReturnType<typeof useHeldCode>,
) {
  const members = form?.members ?? [];
  const asked = form ? members.map((member) => planned(jobOf(spec, form, member))) : [];
  const [settled] = useDebouncedValue(asked.join("\n"), 400);
  const texts = settled === "" ? [] : settled.split("\n");
  const current = settled === asked.join("\n");
  const results = useQueries({
    queries: texts.map((text) => ({ ...planQuery(text), enabled: !code.held(JSON.parse(text)) })),
  });
  const checked: Checked[] = members.map((member, place) => ({
    place,
    strategy: member.strategy,
    name: nameOf(member),
    plan: current ? results[place]?.data : undefined,
    error: current ? (results[place]?.error ?? null) : null,
  }));
  return {
    checked,
    /** What is wrong with the job itself: what everybody is refused for. */
    errors: common(checked),
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
