import { Badge, Group, Text } from "@mantine/core";
import type { StrategyEntry } from "../../api/types";

/** What a strategy does, and when it loses: the inside of a card. */
export function StrategyText({ entry }: { entry: StrategyEntry }) {
  return (
    <div>
      <Group gap={6}>
        <Text fw={650} size="sm">
          {entry.name}
        </Text>
        <Badge size="xs" color={entry.proof === "exact" ? "teal" : "yellow"}>
          {entry.proof}
        </Badge>
        {entry.recommended && (
          <Badge size="xs" color="indigo">
            recommended
          </Badge>
        )}
      </Group>
      <Text size="xs" mt={2}>
        {entry.summary}
      </Text>
      <Text size="xs" c="dimmed" mt={2}>
        <b>Loses when</b> {entry.loses_when}
      </Text>
    </div>
  );
}
