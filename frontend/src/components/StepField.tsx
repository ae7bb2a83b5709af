import { Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { typedStep } from "../lib/steps";

interface Props {
  step: number;
  min: number;
  max: number;
  onStep: (step: number) => void;
  label?: string;
  testId?: string;
}

/** A step to go to, when it is entered or left: what is half typed is no step yet. */
export function StepField({ step, min, max, onStep, label = "step", testId = "step" }: Props) {
  const [typed, setTyped] = useState<string | null>(null);
  const commit = () => {
    const chosen = typed === null ? undefined : typedStep(typed, min, max);
    setTyped(null);
    if (chosen !== undefined && chosen !== step) onStep(chosen);
  };
  return (
    <TextInput
      size="xs"
      w={110}
      value={typed ?? String(step)}
      inputMode="numeric"
      aria-label={`${label === "step" ? "Step" : "Last step"}, ${min} to ${max}`}
      data-testid={testId}
      leftSectionWidth={38}
      leftSection={
        <Text size="xs" c="dimmed">
          {label}
        </Text>
      }
      onChange={(event) => setTyped(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === "Enter") commit();
        if (event.key === "Escape") setTyped(null);
      }}
      onBlur={commit}
    />
  );
}
