import { Button, Group, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { Problem } from "./Problem";

interface Props {
  icon: ReactNode;
  label: string;
  testId: string;
  pending: boolean;
  onAsk: () => void;
  /** Stops waiting for the answer, where that ends what is done for it. */
  onCancel?: () => void;
  /** What stands beside the button. */
  children: ReactNode;
  error: Error | null;
  problemTestId: string;
}

/** A button that asks the service for something that takes seconds, what it does, and why it could not. */
export function AskingButton(props: Props) {
  const { icon, label, testId, pending, onAsk, onCancel, children, error, problemTestId } = props;
  return (
    <>
      <Group gap="sm">
        <Button
          size="compact-sm"
          variant="light"
          leftSection={icon}
          loading={pending}
          onClick={onAsk}
          data-testid={testId}
        >
          {label}
        </Button>
        {pending && onCancel && (
          <Button size="compact-sm" variant="subtle" onClick={onCancel} data-testid={`${testId}-cancel`}>
            Cancel
          </Button>
        )}
        <Text size="xs" c="dimmed">
          {children}
        </Text>
      </Group>
      {error && <Problem error={error} testId={problemTestId} />}
    </>
  );
}
