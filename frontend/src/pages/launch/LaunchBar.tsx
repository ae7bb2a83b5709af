import { Button, Group, Paper, ScrollArea, Text } from "@mantine/core";
import { IconRocket } from "@tabler/icons-react";
import { useEffect, useRef } from "react";
import { Problem } from "../../components/Problem";
import { Tip } from "../../components/Tip";

interface Props {
  /** What the button starts. */
  label: string;
  /** What would run, in a few words. */
  summary: string;
  error: Error | null;
  loading: boolean;
  /** Gives up what was changed; undefined where nothing was. */
  onStartOver: (() => void) | undefined;
}

/** The button that launches, always in sight, and what it was refused for. How high it is, the page's style knows: what
 * gets the focus stops above it. */
export function LaunchBar({ label, summary, error, loading, onStartOver }: Props) {
  const bar = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const shown = bar.current;
    if (shown === null) return;
    const { style } = document.documentElement;
    const observer = new ResizeObserver(() =>
      style.setProperty("--ty-launch-bar", `${shown.offsetHeight}px`),
    );
    observer.observe(shown);
    return () => observer.disconnect();
  }, []);
  return (
    <Paper ref={bar} className="ty-launch-bar" p="xs" shadow="md">
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
        <Text size="sm" c="dimmed" lineClamp={2} flex={1}>
          {summary}
        </Text>
        {onStartOver && (
          <Tip label="This is a draft, which this tab keeps. Starting over gives it up.">
            <Button
              variant="subtle"
              color="gray"
              size="compact-sm"
              style={{ flex: "none" }}
              disabled={loading}
              onClick={onStartOver}
              data-testid="start-over"
            >
              Start over
            </Button>
          </Tip>
        )}
      </Group>
    </Paper>
  );
}
