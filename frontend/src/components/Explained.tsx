import { Stack, Text } from "@mantine/core";
import { IconInfoCircle } from "@tabler/icons-react";
import type { FigureEntry } from "../api/types";
import { Tip } from "./Tip";

/** What a figure shows, and what the metrics in it mean, for who points at the sign beside its title. */
export function Explained({ summary, definitions }: Pick<FigureEntry, "summary" | "definitions">) {
  const terms = Object.entries(definitions);
  const words = [summary, ...terms.map(([term, text]) => `${capital(term)}: ${text}.`)];
  return (
    <Tip
      multiline
      maw={420}
      label={
        <Stack gap={6}>
          {words.map((line) => (
            <Text key={line} size="xs" inherit>
              {line}
            </Text>
          ))}
        </Stack>
      }
    >
      <IconInfoCircle size={16} opacity={0.5} role="img" aria-label={words.join(" ")} tabIndex={0} />
    </Tip>
  );
}

/** A definition as a sentence. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
