import { Stack, Switch, TagsInput } from "@mantine/core";
import { type Errors, errorWithin } from "../../form/errors";
import type { RaceForm } from "../../lib/raceForm";

interface Props {
  form: RaceForm;
  errors: Errors;
  onForm: (form: RaceForm) => void;
}

/** What a race may vary beside the rate, and whether other jobs may run meanwhile. */
export function RaceConditions({ form, errors, onForm }: Props) {
  return (
    <Stack gap="md">
      <Numbers
        label="Numbers of workers"
        name="workers"
        values={form.workers}
        errors={errors}
        onValues={(workers) => onForm({ ...form, workers })}
      />
      <Numbers
        label="Global batches"
        name="batches"
        values={form.batches}
        errors={errors}
        onValues={(batches) => onForm({ ...form, batches })}
      />
      <Switch
        label="Other jobs may run meanwhile"
        description="They take part of the machine: times may be theirs, and the report says so."
        checked={form.beside ?? false}
        onChange={(event) => onForm({ ...form, beside: event.currentTarget.checked })}
        data-testid="race-beside"
      />
    </Stack>
  );
}

interface NumbersProps {
  label: string;
  /** The race's field. */
  name: "workers" | "batches";
  values: number[] | undefined;
  errors: Errors;
  onValues: (values: number[]) => void;
}

function Numbers({ label, name, values = [], errors, onValues }: NumbersProps) {
  return (
    <TagsInput
      label={label}
      description="Everybody runs with each. None given: with the job's own. Enter or a comma ends a number."
      value={values.map(String)}
      error={errorWithin(errors, name)}
      splitChars={[",", " "]}
      inputMode="numeric"
      onChange={(written) => onValues(written.map(Number).filter(Number.isSafeInteger))}
      data-testid={`race-${name}`}
    />
  );
}
