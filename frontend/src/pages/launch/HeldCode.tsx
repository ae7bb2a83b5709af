import { Button, Group, Text } from "@mantine/core";

interface Props {
  /** What is done with the code as it is now. */
  action: string;
  onRelease: () => void;
}

/** A person's own code is not run as it is typed: when it will be, and a button for now. */
export function HeldCode({ action, onRelease }: Props) {
  return (
    <Group gap="xs" my="xs" wrap="nowrap" data-testid="plan-held">
      <Text size="xs" c="dimmed">
        Your own code runs when its plan is made: once its entry points are complete, as you leave the field.
      </Text>
      <Button
        size="compact-sm"
        variant="light"
        style={{ flex: "none" }}
        onClick={onRelease}
        data-testid="plan-now"
      >
        {action}
      </Button>
    </Group>
  );
}
