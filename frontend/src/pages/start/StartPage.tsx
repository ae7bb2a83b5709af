import { Stack, Text, Title } from "@mantine/core";
import { ForMembers } from "../../access/ForMembers";
import { HowToReadThis } from "../../components/HowToReadThis";
import { LinkAnchor } from "../../components/links";
import { usePageTitle } from "../../components/usePageTitle";
import { StartCards } from "./StartCards";

/** An empty installation: what this is, and three ways to begin. */
export function StartPage() {
  usePageTitle("Start");
  return (
    <Stack gap="lg" data-testid="start" maw={1100}>
      <div>
        <Title order={1} fz={{ base: 22, sm: 28 }}>
          Which strategy is fastest for your model on your network?
        </Title>
        <ForMembers>
          <Text c="dimmed">Choose a start. Each fills in a form; nothing runs before you launch it.</Text>
        </ForMembers>
      </div>
      <ForMembers>
        <StartCards />
      </ForMembers>
      <HowToReadThis />
      <Text size="sm" c="dimmed">
        What has run is in the lists of{" "}
        <LinkAnchor to="/races" underline="always">
          races
        </LinkAnchor>{" "}
        and{" "}
        <LinkAnchor to="/jobs" underline="always">
          jobs
        </LinkAnchor>
        .
      </Text>
    </Stack>
  );
}
