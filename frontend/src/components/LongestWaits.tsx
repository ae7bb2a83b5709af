import { Button, Group, Text } from "@mantine/core";
import { formatMs } from "../lib/format";
import type { ListedWait } from "../lib/why";

interface Props {
  waits: ListedWait[];
  /** Whose wait it is. */
  label: (wait: ListedWait) => string;
  isChosen: (wait: ListedWait) => boolean;
  onChoose: (wait: ListedWait) => void;
}

// Only a block can end in an ellipsis. It is as high as its line: Mantine's trims what hangs below, and fills the button.
const LABEL = {
  display: "block",
  textOverflow: "ellipsis",
  height: "auto",
  lineHeight: 1.5,
  textBoxTrim: "none",
} as const;

/** The longest red waits in view as buttons: for keyboards, for fingers, and where red is too thin to hit. */
export function LongestWaits({ waits, label, isChosen, onChoose }: Props) {
  if (waits.length === 0) return null;
  return (
    <Group gap={6} mt={4} miw={0} data-testid="longest-waits">
      <Text size="xs" c="dimmed">
        Why is it waiting? Click a red wait:
      </Text>
      {waits.map((wait) => (
        <Button
          key={[wait.job, wait.party, wait.step, wait.layer, wait.unit].join()}
          size="compact-xs"
          variant={isChosen(wait) ? "filled" : "light"}
          color={isChosen(wait) ? "red.9" : "red"}
          maw="100%"
          styles={{ label: LABEL }}
          aria-pressed={isChosen(wait)}
          onClick={() => onChoose(wait)}
        >
          {formatMs(wait.ns / 1e6)} {label(wait)}, for {wait.layer_name || "what belongs to no layer"}
        </Button>
      ))}
    </Group>
  );
}
