import { Input, Stack, TextInput } from "@mantine/core";
import type { Override, StrategyEntry } from "../api/types";
import { differing, type Member, nameOf } from "../lib/raceForm";
import { type Errors, errorAt } from "./errors";
import { ObjectFields, SchemaField } from "./SchemaField";
import { hasFields, initialValue, type JsonSchema } from "./schema";

interface Props {
  member: Member;
  /** Its strategy's; undefined while it is asked for. */
  entry: StrategyEntry | undefined;
  /** A job's schema, which says what an override is; undefined while it is asked for. */
  job: JsonSchema | undefined;
  /** Where the member is in what is sent. */
  path: string;
  errors: Errors;
  onMember: (member: Member) => void;
}

/** What one who races has of its own: a name, options, and choices for some layers. */
export function MemberFields({ member, entry, job, path, errors, onMember }: Props) {
  const schema = entry?.options_schema as JsonSchema | undefined;
  const defaults = (schema ? initialValue(schema, schema) : {}) as Record<string, unknown>;
  const options = { ...defaults, ...member.options };
  const overrides = job?.properties?.overrides;
  return (
    <Stack gap="sm">
      <TextInput
        label="Name"
        description="What to call it. Empty: its strategy, with the options that are not its defaults."
        placeholder={nameOf({ ...member, name: null })}
        value={member.name ?? ""}
        error={errorAt(errors, `${path}.name`)}
        onChange={(event) => onMember({ ...member, name: event.currentTarget.value || null })}
        data-testid={`field-${path}.name`}
      />
      {schema && hasFields(schema, options) && (
        <Input.Wrapper label={`Options of ${member.strategy}`}>
          <ObjectFields
            schema={schema}
            root={schema}
            path={`${path}.options`}
            value={options}
            errors={errors}
            onChange={(changed) =>
              onMember({ ...member, options: differing(changed as Record<string, unknown>, defaults) })
            }
          />
        </Input.Wrapper>
      )}
      {job && overrides && (
        <SchemaField
          schema={overrides}
          root={job}
          path={`${path}.overrides`}
          label="Overrides of its own, in place of the job's"
          value={member.overrides ?? []}
          errors={errors}
          onChange={(changed) => {
            const given = changed as Override[];
            onMember({ ...member, overrides: given.length > 0 ? given : null });
          }}
        />
      )}
    </Stack>
  );
}
