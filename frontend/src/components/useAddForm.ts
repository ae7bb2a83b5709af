import type { UseMutationResult } from "@tanstack/react-query";
import { type ChangeEvent, type FormEvent, useState } from "react";

/** The fields of a form that adds one thing: they begin as `empty`, and those that `cleared` names do so again once the
 * thing is there. The others stay for the next one. `add` is given all of them. */
export function useAddForm<Fields extends object>(
  empty: Fields,
  cleared: readonly (keyof Fields)[],
  add: UseMutationResult<unknown, Error, Fields>,
) {
  const [fields, setFields] = useState(empty);
  const put = (given: Partial<Fields>) => setFields((before) => ({ ...before, ...given }));
  return {
    fields,
    put,
    /** What a field of text is told. */
    typed: <Name extends keyof Fields>(name: Name) => ({
      value: fields[name],
      onChange: (event: ChangeEvent<HTMLInputElement>) =>
        put({ [name]: event.currentTarget.value } as unknown as Partial<Fields>),
    }),
    submit: (event: FormEvent) => {
      event.preventDefault();
      add.mutate(fields, {
        onSuccess: () => {
          for (const name of cleared) put({ [name]: empty[name] } as unknown as Partial<Fields>);
        },
      });
    },
  };
}
