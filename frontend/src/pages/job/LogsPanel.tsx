import { Button, Group, Paper, ScrollArea, SegmentedControl, Select, Switch, Text } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import type { Job } from "../../api/types";
import { Problem } from "../../components/Problem";
import { formatBytes } from "../../lib/format";
import { isLive } from "../../lib/jobState";
import { KEPT_BYTES } from "../../lib/logText";
import { useLogs } from "./useLogs";

const SIDE_BY_SIDE = 3;

interface Props {
  job: Job;
  party: string | undefined;
  onParty: (party: string) => void;
  /** A number; undefined: the latest, whichever that becomes. */
  attempt: number | undefined;
}

/** What each process of an attempt writes, as it writes it. */
export function LogsPanel({ job, party, onParty, attempt }: Props) {
  const latest = job.attempts.at(-1)?.number;
  const live = isLive(job.state) && (attempt ?? latest) === latest;
  const logs = useLogs({ jobId: job.id, attempt: attempt ?? latest, party, live });
  const [follow, setFollow] = useState(true);
  const viewport = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (follow && logs.text) viewport.current?.scrollTo({ top: viewport.current.scrollHeight });
  }, [follow, logs.text]);

  return (
    <Paper p="sm">
      <Group justify="space-between" mb="xs" gap="xs">
        {logs.parties.length === 0 ? (
          <Text size="sm" c="dimmed">
            No process has started yet.
          </Text>
        ) : (
          <PartyChoice parties={logs.parties} party={logs.party} onParty={onParty} />
        )}
        <Switch
          size="sm"
          label="Follow"
          checked={follow}
          onChange={(event) => setFollow(event.currentTarget.checked)}
          data-testid="log-follow"
        />
      </Group>
      {logs.error && <Problem error={logs.error} />}
      {logs.skipped > 0 && (
        <Group gap="xs" mb={4}>
          <Text size="xs" c="dimmed" data-testid="log-skipped">
            The first {formatBytes(logs.skipped)} are not shown
            {logs.earlier ? "." : `: the page keeps the last ${formatBytes(KEPT_BYTES)}. All of it: `}
            {!logs.earlier && (
              <code>
                trainyard logs {job.id}
                {attempt && ` --attempt ${attempt}`}
              </code>
            )}
          </Text>
          {logs.earlier && (
            <Button size="compact-xs" variant="subtle" onClick={logs.earlier} data-testid="log-earlier">
              Earlier lines
            </Button>
          )}
        </Group>
      )}
      <ScrollArea
        h="min(62vh, 640px)"
        viewportRef={viewport}
        type="auto"
        // The viewport is what scrolls: with the focus there, arrow keys scroll the log and not the page.
        viewportProps={{ tabIndex: 0, role: "region", "aria-label": `Log of ${logs.party ?? "the job"}` }}
        onScrollPositionChange={({ y }) => {
          const target = viewport.current;
          if (target) setFollow(target.scrollHeight - target.clientHeight - y < 24);
        }}
      >
        <pre className="ty-log" data-testid="log-text">
          {logs.text || (logs.error ? "" : live ? "(nothing written yet)" : "(nothing written)")}
        </pre>
      </ScrollArea>
    </Paper>
  );
}

interface ChoiceProps {
  parties: string[];
  party: string | undefined;
  onParty: (party: string) => void;
}

/** Side by side where they fit on a phone, else as a list. */
function PartyChoice({ parties, party, onParty }: ChoiceProps) {
  const common = { size: "xs", data: parties, "aria-label": "Which process", "data-testid": "log-party" };
  if (parties.length <= SIDE_BY_SIDE)
    return <SegmentedControl {...common} value={party ?? ""} onChange={onParty} />;
  return (
    <Select
      {...common}
      value={party || null}
      allowDeselect={false}
      onChange={(chosen) => chosen && onParty(chosen)}
    />
  );
}
