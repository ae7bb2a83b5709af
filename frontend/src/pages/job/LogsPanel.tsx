import { Button, Group, Paper, ScrollArea, SegmentedControl, Select, Switch, Text } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useEffect, useMemo, useRef, useState } from "react";
import type { Job } from "../../api/types";
import { Problem } from "../../components/Problem";
import { formatBytes } from "../../lib/format";
import { isLive } from "../../lib/jobState";
import { matchesIn, stamped } from "../../lib/logLines";
import { KEPT_BYTES } from "../../lib/logText";
import { formatQuery, type JobSearch } from "../../lib/search";
import { LogSearch } from "./LogSearch";
import { LogText } from "./LogText";
import { useLogs } from "./useLogs";

const SIDE_BY_SIDE = 3;

interface Props {
  job: Job;
  party: string | undefined;
  /** What is looked for. */
  find: string;
  onChange: (change: Pick<JobSearch, "party" | "find">) => void;
  /** A number; undefined: the latest, whichever that becomes. */
  attempt: number | undefined;
}

/** What each process of an attempt writes, as it writes it; where one failed, its log is opened. */
export function LogsPanel({ job, party, find, onChange, attempt }: Props) {
  const latest = job.attempts.at(-1)?.number;
  const live = isLive(job.state) && (attempt ?? latest) === latest;
  // Who failed is known with the first answer.
  const [failed, setFailed] = useState<string>();
  const logs = useLogs({ jobId: job.id, attempt: attempt ?? latest, party: party ?? failed, live });
  const [follow, setFollow] = useState(find === "");
  const [timed, setTimed] = useState(false);
  if ((logs.failed ?? undefined) !== failed && logs.party !== undefined) setFailed(logs.failed ?? undefined);
  const viewport = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (follow && logs.text) viewport.current?.scrollTo({ top: viewport.current.scrollHeight });
  }, [follow, logs.text]);
  const hasTimes = logs.times.until.length > 0;
  const text = useMemo(
    () => (timed && hasTimes ? stamped(logs.text, logs.skipped, logs.times, clock) : logs.text),
    [timed, hasTimes, logs.text, logs.skipped, logs.times],
  );
  const matches = useMemo(() => matchesIn(text, find), [text, find]);
  const [current, setCurrent] = useState(0);
  const shown = matches.length === 0 ? 0 : Math.min(current, matches.length - 1);
  const at = matches[shown];
  useEffect(() => {
    if (at === undefined) return;
    setFollow(false); // what was found stays in view
    viewport.current?.querySelector("mark[data-current]")?.scrollIntoView({ block: "center" });
  }, [at]);

  return (
    <Paper p="sm">
      <Group justify="space-between" mb="xs" gap="xs">
        {logs.parties.length === 0 ? (
          <Text size="sm" c="dimmed">
            {live ? "No process has started yet." : "No process was started."}
          </Text>
        ) : (
          <PartyChoice
            parties={logs.parties}
            party={logs.party}
            failed={logs.failed}
            onParty={(chosen) => onChange({ party: chosen })}
          />
        )}
        <LogSearch
          wanted={find}
          count={matches.length}
          current={shown}
          onWanted={(wanted) => {
            setCurrent(0);
            onChange({ find: wanted || undefined });
          }}
          onCurrent={setCurrent}
        />
        {hasTimes && (
          <Switch
            size="sm"
            label="Times"
            checked={timed}
            onChange={(event) => setTimed(event.currentTarget.checked)}
            data-testid="log-times"
          />
        )}
        <Switch
          size="sm"
          label="Follow"
          checked={follow}
          onChange={(event) => setFollow(event.currentTarget.checked)}
          data-testid="log-follow"
        />
        {logs.party && (
          <Button
            component="a"
            href={`/api/v1/jobs/${job.id}/logs/file${formatQuery({ party: logs.party, attempt })}`}
            download
            size="compact-sm"
            variant="default"
            leftSection={<IconDownload size={14} />}
            data-testid="log-download"
          >
            Download
          </Button>
        )}
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
        <LogText
          text={text || (logs.error ? "" : live ? "(nothing written yet)" : "(nothing written)")}
          matches={matches}
          length={find.length}
          current={shown}
        />
      </ScrollArea>
    </Paper>
  );
}

interface ChoiceProps {
  parties: string[];
  party: string | undefined;
  /** Is marked. */
  failed: string | null;
  onParty: (party: string) => void;
}

/** Side by side where they fit on a phone, else as a list. */
function PartyChoice({ parties, party, failed, onParty }: ChoiceProps) {
  const data = parties.map((name) => ({ value: name, label: name === failed ? `${name} (failed)` : name }));
  const common = { size: "xs", data, "aria-label": "Which process", "data-testid": "log-party" };
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

/** A time of day, to the second, as the browser's clock has it. */
function clock(unixMs: number): string {
  return new Date(unixMs).toLocaleTimeString("en-GB");
}
