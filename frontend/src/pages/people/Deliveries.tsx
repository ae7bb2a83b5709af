import { Badge, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { deliveriesQuery } from "../../api/peopleQueries";
import type { Delivery } from "../../api/types";
import { Problem } from "../../components/Problem";
import { fateOf, stateOf } from "../../lib/webhooks";

/** The newest messages to a webhook, and what became of each. */
export function Deliveries({ webhook }: { webhook: number }) {
  const { data, error, refetch } = useQuery(deliveriesQuery(webhook));
  if (error) return <Problem error={error} onRetry={() => void refetch()} />;
  if (!data) return null;
  return (
    <Stack gap={6} data-testid={`deliveries-${webhook}`}>
      {data.items.length === 0 && (
        <Text size="sm" c="dimmed">
          It was told nothing yet.
        </Text>
      )}
      {data.items.map((one) => (
        <One key={one.id} one={one} />
      ))}
    </Stack>
  );
}

function One({ one }: { one: Delivery }) {
  const { word, color } = stateOf(one);
  return (
    <div>
      <Text size="sm" component="div">
        <Badge variant="light" color={color} mr="xs">
          {word}
        </Badge>
        {new Date(one.at).toLocaleString()} · {String(one.body.text ?? one.event)}
      </Text>
      <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
        {fateOf(one)}
      </Text>
    </div>
  );
}
