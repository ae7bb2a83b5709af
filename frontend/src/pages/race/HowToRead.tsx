import { Group, Text } from "@mantine/core";

const PARTS = [
  {
    color: "linear-gradient(90deg, #414487, #22a884, #bddf26)",
    text: "a layer, coloured by its place in the model",
  },
  { color: "var(--ty-wait)", text: "exposed: a worker waits and computes nothing" },
];

/** The picture's key, in words. */
export function HowToRead() {
  return (
    <Group gap="md" visibleFrom="sm">
      {PARTS.map((part) => (
        <Group key={part.text} gap={6} wrap="nowrap">
          <span style={{ width: 22, height: 10, borderRadius: 3, background: part.color, flex: "none" }} />
          <Text size="xs" c="dimmed">
            {part.text}
          </Text>
        </Group>
      ))}
    </Group>
  );
}
