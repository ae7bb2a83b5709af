import { Button, Code, Group, Input, Stack } from "@mantine/core";
import { Marked } from "../components/Marked";
import { type Errors, errorAt, errorWithin } from "./errors";
import { isObject } from "./schema";

interface Props {
  /** Of the object; empty for the specification itself. */
  path: string;
  value: unknown;
  /** The fields that the object has. */
  known: string[];
  errors: Errors;
  onChange: (value: Record<string, unknown>) => void;
}

/** What is wrong with an object, but with none of its fields: with it as a whole, or an entry that it does not have. */
export function Misfits({ path, value, known, errors, onChange }: Props) {
  const whole = path === "" ? undefined : errorAt(errors, path);
  const strangers = Object.entries(isObject(value) ? value : {}).filter(([name]) => !known.includes(name));
  if (whole === undefined && strangers.length === 0) return null;
  const without = (name: string) => Object.entries(value as object).filter(([other]) => other !== name);
  return (
    <Stack gap={4} pb={4}>
      {whole && (
        <Input.Error data-testid={`field-${path}`}>
          <Marked text={whole} />
        </Input.Error>
      )}
      {strangers.map(([name, entry]) => {
        const at = path === "" ? name : `${path}.${name}`;
        return (
          <Group key={name} gap="xs" data-testid={`field-${at}`}>
            <Code>
              {name}: {JSON.stringify(entry)}
            </Code>
            <Input.Error>
              <Marked text={errorWithin(errors, at) ?? "There is no such field."} />
            </Input.Error>
            <Button
              size="compact-xs"
              variant="subtle"
              color="gray"
              onClick={() => onChange(Object.fromEntries(without(name)))}
            >
              Leave it out
            </Button>
          </Group>
        );
      })}
    </Stack>
  );
}
