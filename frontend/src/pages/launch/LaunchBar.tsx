import { Button, Group, Paper, ScrollArea, Text } from "@mantine/core";
import { IconRocket } from "@tabler/icons-react";
import { Problem } from "../../components/Problem";

interface Props {
  /** What the button starts. */
  label: string;
  /** What would run, in a few words. */
  summary: string;
  error: Error | null;
  loading: boolean;
}

/** The button that launches, always in sight, and what it was refused for. */
export function LaunchBar({ label, summary, error, loading }: Props) {
  return (
    <Paper className="ty-launch-bar" p="xs" shadow="md">
      {error && (
        <ScrollArea.Autosize mah="40vh" mb="xs">
          <Problem error={error} testId="launch-problem" />
        </ScrollArea.Autosize>
      )}
      <Group gap="sm" wrap="nowrap">
        <Button
          type="submit"
          size="md"
          style={{ flex: "none" }}
          loading={loading}
          leftSection={<IconRocket size={18} />}
          data-testid="launch"
        >
          {label}
        </Button>
        <Text size="sm" c="dimmed" lineClamp={2}>
          {summary}
        </Text>
      </Group>
    </Paper>
  );
}
