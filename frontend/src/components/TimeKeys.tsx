import { Kbd, Text } from "@mantine/core";
import type { ReactNode } from "react";

/** The keys of `useTimeKeys`, in words, and what else there is. */
export function TimeKeys({ children }: { children?: ReactNode }) {
  return (
    <Text size="xs" c="dimmed" visibleFrom="sm">
      <Kbd size="xs">W</Kbd> <Kbd size="xs">S</Kbd> closer and further, <Kbd size="xs">A</Kbd>{" "}
      <Kbd size="xs">D</Kbd> earlier and later
      {children}
    </Text>
  );
}
