import { Button, Group, Paper, Stack, Text } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";
import { useEffect, useSyncExternalStore } from "react";
import { Term } from "./Term";

const KEY = "trainyard-how-to-read";

/** Whether "how to read this" is closed, in this browser and for good. */
export function useHowToRead() {
  return useLocalStorage<boolean>({ key: KEY, defaultValue: false, getInitialValueInEffect: false });
}

let places = 0;
const listeners = new Set<() => void>();

function has(more: number) {
  places += more;
  for (const listener of listeners) listener();
}

/** Whether the page that is open has a place for "how to read this", be it closed or not. */
export function useHasHowToRead() {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => places > 0,
  );
}

/** What a newcomer reads once: what this is, what red means, and words to point at. */
export function HowToReadThis() {
  const [closed, setClosed] = useHowToRead();
  useEffect(() => {
    has(1);
    return () => has(-1);
  }, []);
  if (closed) return null;
  return (
    <Paper p="sm" component="section" aria-label="How to read this" data-testid="how-to-read">
      <Group justify="space-between" align="flex-start" wrap="nowrap" gap="md">
        <Stack gap={4}>
          <Text size="sm">
            <b>What this is.</b> Trainyard trains one model on several workers, under one{" "}
            <Term name="strategy">strategy</Term> after another, and shows for every layer where its time and
            its bytes go.
          </Text>
          <Text size="sm">
            <b style={{ color: "var(--ty-wait-text)" }}>Red</b> is{" "}
            <Term name="exposed wait">exposed waiting</Term>: a worker computes nothing because the network
            has not yet brought what it needs. Where the computation is the same, the least red is the
            fastest, as long as this machine's <Term name="processors">processors</Term> are not full: a
            worker that does not get one computes longer, and that is not red.
          </Text>
          <Text size="sm" c="dimmed">
            Words with a dotted line explain themselves when you point at them: <Term name="unit" />,{" "}
            <Term name="version" />, <Term name="iteration time" />, <Term name="speed-up" />,{" "}
            <Term name="rehearsal" />, <Term name="lab" />, <Term name="software-limited" />.
          </Text>
        </Stack>
        <Button
          size="compact-sm"
          variant="light"
          style={{ flex: "none" }}
          onClick={() => setClosed(true)}
          data-testid="how-to-read-close"
        >
          Got it
        </Button>
      </Group>
    </Paper>
  );
}
