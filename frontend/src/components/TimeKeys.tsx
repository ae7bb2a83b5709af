import { Kbd, Text } from "@mantine/core";

/** The keys of `useTimeKeys`, in words. */
export function TimeKeys() {
  return (
    <Text size="xs" c="dimmed" visibleFrom="sm">
      <Kbd size="xs">W</Kbd> <Kbd size="xs">S</Kbd> closer and further, <Kbd size="xs">A</Kbd>{" "}
      <Kbd size="xs">D</Kbd> earlier and later
    </Text>
  );
}
