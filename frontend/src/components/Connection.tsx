import { Group, Text } from "@mantine/core";
import { useEffect, useState } from "react";
import { formatAge } from "../lib/format";
import { useLive } from "../live/LiveProvider";
import { Tip } from "./Tip";

const WORDS = { connecting: "connecting", live: "live", lost: "reconnecting" } as const;

/** Whether the page is connected, and how old the newest news is. */
export function Connection() {
  const { connection, lastNoticeAt } = useLive();
  const now = useNow(1000);
  const age = lastNoticeAt === null ? null : formatAge(now - lastNoticeAt);
  const explanation =
    connection === "lost"
      ? `The service does not answer. The page keeps trying; what it shows is ${age === null ? "old" : `from ${age}`}.`
      : age === null
        ? "Connected. Nothing has changed since the page was opened."
        : `Connected. Last change: ${age}.`;
  return (
    <Tip label={explanation}>
      <Group
        gap={6}
        wrap="nowrap"
        miw={0}
        data-testid="connection"
        data-state={connection}
        role="group"
        aria-label="Connection to the service"
      >
        <span className="ty-dot" data-state={connection} />
        <Text size="xs" c={connection === "lost" ? "red" : "dimmed"} fw={600} truncate>
          {/* Only the state is announced when it changes, not the seconds beside it. */}
          <span role="status">{WORDS[connection]}</span>
          {age !== null && (
            <Text
              span
              inherit
              fw={400}
              visibleFrom={connection === "lost" ? undefined : "sm"}
              data-testid="age"
            >
              {" · "}
              {age}
            </Text>
          )}
        </Text>
      </Group>
    </Tip>
  );
}

function useNow(everyMs: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
