import { Select, type SelectProps } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { jobQuery, namedJobsQuery, recentJobsQuery } from "../api/queries";
import type { JobSummary } from "../api/types";
import { toldApart } from "../lib/apart";

interface Props extends Omit<SelectProps, "data" | "value" | "onChange"> {
  value: string | null;
  /** What stands for a job. */
  describe: (job: JobSummary) => string;
  /** Which jobs may be chosen. */
  allowed?: (job: JobSummary) => boolean;
  onChange: (id: string | null) => void;
}

const TYPED_MS = 200;

/** A job: of the newest ones by anything in its label, of all by its name. */
export function JobSelect({ value, describe, allowed, onChange, ...select }: Props) {
  const [typed, setTyped] = useState("");
  const [rested] = useDebouncedValue(typed, TYPED_MS);
  const chosen = useQuery({ ...jobQuery(value ?? ""), enabled: value !== null }).data;
  const label = chosen && describe(chosen);
  // A choice stands in the field as if it had been typed.
  const text = rested === label ? "" : rested;
  const named = useQuery(namedJobsQuery(text)).data?.items ?? [];
  const recent = useQuery(recentJobsQuery).data?.items ?? [];
  const matching = recent.filter((job) => describe(job).toLowerCase().includes(text.toLowerCase()));
  const found = new Map([...matching, ...named].map((job) => [job.id, job])).values();
  const others = [...found].filter((job) => job.id !== value && (allowed?.(job) ?? true));
  // Two of one name are told apart, also from the one that is chosen.
  const apart = toldApart(chosen ? [...others, chosen] : others);
  const data = apart.slice(0, others.length).map((job) => ({ value: job.id, label: describe(job) }));
  return (
    <Select
      {...select}
      data={value === null ? data : [{ value, label: label ?? value }, ...data]}
      value={value}
      searchable
      searchValue={typed}
      onSearchChange={setTyped}
      // What the service found by name is there because of it.
      filter={({ options }) => options}
      nothingFoundMessage="No such job"
      onChange={onChange}
    />
  );
}
