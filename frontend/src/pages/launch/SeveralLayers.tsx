import { Button, Group, NativeSelect, NumberInput, TextInput } from "@mantine/core";
import { useState } from "react";
import type { AxisEntry } from "../../api/types";
import { humanize } from "../../lib/format";
import type { Choice, Value } from "../../lib/overrides";
import { optionsOf } from "./optionsOf";

interface Props {
  name: string;
  /** A class; null: any. */
  kind: string | null;
  kinds: string[];
  /** How many layers these two leave. */
  found: number;
  choices: Choice[];
  axes: AxisEntry[];
  onName: (name: string) => void;
  onKind: (kind: string | null) => void;
  onSet: (choice: Choice, value: Value) => void;
}

const ANY = "any class";
const AS_PLANNED = "as planned";

/** Which layers are shown, by name and class, and one choice for all of them; or none, which takes it back. */
export function SeveralLayers(props: Props) {
  const { name, kind, kinds, found, choices, axes, onName, onKind, onSet } = props;
  const [choice, setChoice] = useState<Choice>("exchange");
  const [value, setValue] = useState<Value>("");
  const values = optionsOf(choice, axes);
  return (
    <Group gap="xs" align="end" role="group" aria-label="Several layers" data-testid="several-layers">
      <TextInput
        size="xs"
        label="Layers named"
        placeholder="part of a name, conv1*"
        w={200}
        value={name}
        onChange={(event) => onName(event.currentTarget.value)}
      />
      <NativeSelect
        size="xs"
        label="Class"
        data={[ANY, ...kinds]}
        value={kind ?? ANY}
        onChange={(event) => onKind(event.currentTarget.value === ANY ? null : event.currentTarget.value)}
      />
      <NativeSelect
        size="xs"
        label="Choice"
        data={choices.map((one) => ({ value: one, label: humanize(one) }))}
        value={choice}
        onChange={(event) => {
          setChoice(event.currentTarget.value as Choice);
          setValue("");
        }}
      />
      {choice === "size" ? (
        <NumberInput
          size="xs"
          label="Value"
          placeholder={AS_PLANNED}
          w={110}
          min={1}
          hideControls
          value={value ?? ""}
          onChange={(entry) => setValue(typeof entry === "number" ? entry : "")}
        />
      ) : (
        <NativeSelect
          size="xs"
          label="Value"
          data={[{ value: "", label: AS_PLANNED }, ...values]}
          value={String(value ?? "")}
          onChange={(event) => setValue(event.currentTarget.value)}
        />
      )}
      <Button
        size="xs"
        variant="light"
        disabled={found === 0}
        data-testid="set-several"
        onClick={() => onSet(choice, value === "" ? null : value)}
      >
        Set for {found === 1 ? "1 layer" : `${found} layers`}
      </Button>
    </Group>
  );
}
