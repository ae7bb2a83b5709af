import { Button, Group, Modal, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { IconPlayerStop } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";

interface Props {
  /** What is ended: `the job`, `the race`. */
  what: string;
  name: string;
  /** What ending it means. */
  text: string;
  disabled?: boolean;
  cancel: () => Promise<void>;
  /** Of the button; the one that confirms has it with `-confirm`. */
  testId: string;
}

/** Ends something after asking: hours of training may be behind one wrong click. */
export function CancelButton({ what, name, text, disabled, cancel, testId }: Props) {
  const [asking, { open, close }] = useDisclosure(false);
  const ending = useMutation({
    mutationFn: cancel,
    onError: (error) => notifications.show({ color: "red", title: "Not cancelled", message: error.message }),
    onSettled: close,
  });
  return (
    <>
      <Button
        color="red"
        variant="light"
        leftSection={<IconPlayerStop size={16} />}
        disabled={disabled}
        onClick={open}
        data-testid={testId}
      >
        Cancel
      </Button>
      <Modal opened={asking} onClose={close} title={`Cancel ${what} ${name}?`} centered>
        <Text size="sm">{text}</Text>
        <Group justify="flex-end" gap="xs" mt="md">
          <Button variant="default" onClick={close} data-autofocus>
            Let it run
          </Button>
          <Button
            color="red.9"
            loading={ending.isPending}
            onClick={() => ending.mutate()}
            data-testid={`${testId}-confirm`}
          >
            Cancel {what}
          </Button>
        </Group>
      </Modal>
    </>
  );
}
