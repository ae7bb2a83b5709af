import { Select, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import type { SourceEntry } from "../../api/types";
import { errorAt, errorWithin } from "../../form/errors";
import { MapField } from "../../form/MapField";
import { Misfits } from "../../form/Misfits";
import { type FieldProps, ObjectFields } from "../../form/SchemaField";
import { hasFields, initialValue, isObject, type JsonSchema, resolve } from "../../form/schema";
import { entered, entryProblem } from "../../lib/ownCode";

interface Props extends FieldProps {
  entries: SourceEntry[];
  /** `model`, `data set`. */
  what: string;
  /** The folder of the other of model and data, if that is one's own. */
  beside: string;
}

/** A model or a data set: one of ours with its options, or an entry point of one's own. */
export function SourcePicker({
  entries,
  what,
  beside,
  schema: whole,
  root,
  path,
  value,
  errors,
  onChange,
}: Props) {
  const source = isObject(value) ? value : {};
  const own = source.entrypoint !== null && source.entrypoint !== undefined;
  const chosen = entries.find((entry) => entry.name === source.name);
  const schema = chosen?.options_schema as JsonSchema | undefined;
  const set = (change: Record<string, unknown>) => onChange({ ...source, ...change });
  const choose = (name: string | null) => {
    const found = entries.find((entry) => entry.name === name)?.options_schema as JsonSchema | undefined;
    onChange({ name, entrypoint: null, directory: null, options: found ? initialValue(found, found) : {} });
  };
  // What the field held as it was left: a half typed text is told nothing.
  const [left, setLeft] = useState("");
  // A file becomes its module and its folder, whichever of the two fields is written last.
  const split = (text: string, directory: string) => {
    setLeft(text);
    const found = entered(text, directory, beside);
    if (found) set(found);
  };
  const text = (field: "entrypoint" | "directory", description: string, placeholder: string) => (
    <TextInput
      label={field === "entrypoint" ? "Entry point" : "Directory"}
      description={description}
      placeholder={placeholder}
      value={String(source[field] ?? "")}
      error={
        (field === "entrypoint" &&
          left === source.entrypoint &&
          entryProblem(left, String(source.directory ?? "") || beside)) ||
        errorAt(errors, `${path}.${field}`)
      }
      data-testid={`field-${path}.${field}`}
      onChange={(event) => set({ [field]: event.currentTarget.value })}
      onBlur={() => split(String(source.entrypoint ?? ""), String(source.directory ?? ""))}
    />
  );
  return (
    <Stack gap="sm">
      <Misfits
        path={path}
        value={source}
        known={Object.keys(resolve(whole, root).schema.properties ?? {})}
        errors={errors}
        onChange={onChange}
      />
      <Switch
        size="xs"
        label={`My own ${what}`}
        checked={own}
        data-testid={`own-${path}`}
        onChange={(event) =>
          event.currentTarget.checked
            ? onChange({ name: null, entrypoint: "", directory: "", options: {} })
            : choose(entries[0]?.name ?? null)
        }
      />
      {own ? (
        <>
          {text(
            "entrypoint",
            path === "data"
              ? "Your file, and its function that returns (train, test), two map-style data sets: its folder goes into the field below. A module in that folder does, too: net:data."
              : "Your file, and its function that returns a torch.nn.Module: its folder goes into the field below. A module in that folder does, too: net:build.",
            path === "data" ? "/home/me/project/net.py:data" : "/home/me/project/net.py:build",
          )}
          {text(
            "directory",
            "The folder that holds the file or the package, as an absolute path on the workers' machines.",
            "/home/me/project",
          )}
          <MapField
            label="Options"
            description="Arguments of the function."
            error={errorWithin(errors, `${path}.options`)}
            value={isObject(source.options) ? source.options : {}}
            onChange={(options) => set({ options })}
            data-testid={`field-${path}.options`}
          />
        </>
      ) : (
        <>
          <Select
            aria-label={what}
            data={byPurpose(entries)}
            value={(source.name as string | null) ?? null}
            error={errorAt(errors, `${path}.name`)}
            allowDeselect={false}
            searchable
            data-testid={`field-${path}.name`}
            onChange={choose}
          />
          {chosen && (
            <Text size="xs" c="dimmed">
              {chosen.summary}
            </Text>
          )}
          {schema && hasFields(schema, source.options) && (
            <div>
              <ObjectFields
                schema={schema}
                root={schema}
                path={`${path}.options`}
                value={source.options}
                errors={errors}
                onChange={(options) => set({ options })}
              />
            </div>
          )}
        </>
      )}
    </Stack>
  );
}

function byPurpose(entries: SourceEntry[]) {
  const names = (testing: boolean) =>
    entries.filter((entry) => (entry.purpose === "testing") === testing).map((entry) => entry.name);
  const groups = [
    { group: "To train", items: names(false) },
    { group: "To exercise the engine", items: names(true) },
  ];
  return groups.filter(({ items }) => items.length > 0);
}
