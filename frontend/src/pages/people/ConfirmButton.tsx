import { Button, Group, Modal, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { ReactNode } from "react";

interface Props {
  /** What it does: `Remove`. */
  label: string;
  /** To whom or what. */
  about: string;
  title: string;
  /** The way out: `Keep them`. */
  keep: string;
  pending: boolean;
  onConfirm: () => Promise<unknown>;
  /** What follows from it. */
  children: ReactNode;
}

/** Does what cannot be undone, after asking. */
export function ConfirmButton({ label, about, title, keep, pending, onConfirm, children }: Props) {
  const [asking, { open, close }] = useDisclosure(false);
  const confirm = () => void onConfirm().then(close, close);
  return (
    <>
      <Button
        size="compact-xs"
        variant="subtle"
        color="red"
        aria-label={`${label} ${about}`}
        onClick={open}
        data-testid={`${label.toLowerCase()}-${about}`}
      >
        {label}
      </Button>
      <Modal opened={asking} onClose={close} title={title} centered>
        <Text size="sm" component="div">
          {children}
        </Text>
        <Group justify="flex-end" gap="xs" mt="md">
          <Button variant="default" onClick={close} data-autofocus>
            {keep}
          </Button>
          <Button color="red.9" loading={pending} onClick={confirm} data-testid="confirm">
            {label}
          </Button>
        </Group>
      </Modal>
    </>
  );
}
