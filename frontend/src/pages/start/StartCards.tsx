import { SimpleGrid, Text } from "@mantine/core";
import { IconBinaryTree2, IconCode, IconNumbers } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { startsQuery } from "../../api/queries";
import { LinkCard } from "../../components/links";
import { Problem } from "../../components/Problem";

const ICONS = { cluster: IconBinaryTree2, own: IconCode, digits: IconNumbers };

/** The ways to begin; each opens Launch, filled in. `chosen`: the one that the form is filled from. */
export function StartCards({ chosen }: { chosen?: string }) {
  const starts = useQuery(startsQuery);
  if (starts.error) return <Problem error={starts.error} onRetry={() => void starts.refetch()} />;
  return (
    <SimpleGrid cols={{ base: 1, sm: 3 }} spacing="sm" mih={110} data-testid="starts">
      {(starts.data ?? []).map(({ name, title, summary }) => {
        const Icon = ICONS[name];
        return (
          <LinkCard
            key={name}
            to="/launch"
            search={{ start: name }}
            withBorder
            padding="sm"
            className="ty-card"
            aria-current={chosen === name || undefined}
            data-testid={`start-${name}`}
          >
            <Icon size={22} aria-hidden />
            <Text fw={650} mt={6}>
              {title}
            </Text>
            <Text size="sm" c="dimmed">
              {summary}
            </Text>
          </LinkCard>
        );
      })}
    </SimpleGrid>
  );
}
