import { ActionIcon, Group, Paper, Skeleton, Table, Text, Title } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { whyQuery } from "../api/queries";
import type { Why } from "../api/types";
import { formatBytes, formatMs } from "../lib/format";
import type { WaitKey } from "../lib/why";
import { CAUSES, whyRows } from "../lib/whyRows";
import { Problem } from "./Problem";
import { TakeTable } from "./TakeTable";
import { Tip } from "./Tip";

// Shorter ones are in the bar, and in the numbers, but not worth a line.
const LEAST_SHARE = 0.005;

interface Props {
  jobId: string;
  wait: WaitKey;
  /** Whose wait it is; without: the latest. */
  attempt?: number;
  /** Of the job: files are called so. */
  jobName: string;
  /** There are several jobs on the page, and the heading says which one it is. */
  named?: boolean;
  /** Also what Escape does: the page binds it, which knows what else that key closes. */
  onClose: () => void;
}

/** A wait, cut into what happened to the message that ended it. */
export function WhyPanel({ jobId, wait, attempt, jobName, named = false, onClose }: Props) {
  const query = useQuery(whyQuery(jobId, wait, attempt));
  return (
    <Paper p="sm" mt="sm" data-testid="why-panel" role="region" aria-label="Why is it waiting?">
      <Group justify="space-between" gap="xs" wrap="nowrap" align="flex-start">
        <div>
          <Text size="xs" c="dimmed" fw={600}>
            Why is it waiting?{named && ` · ${jobName}`}
          </Text>
          {query.data && (
            <Title order={2} fz="lg" data-testid="why-text" aria-live="polite">
              <Text span inherit c="var(--ty-wait)">
                {query.data.worker}
              </Text>{" "}
              {query.data.text}
            </Title>
          )}
        </div>
        <Tip label="Close (Esc)">
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label="Close"
            onClick={onClose}
            data-testid="why-close"
          >
            <IconX size={18} />
          </ActionIcon>
        </Tip>
      </Group>
      {query.isPending && <Skeleton height={120} mt="xs" />}
      {query.error && <Problem error={query.error} onRetry={() => void query.refetch()} />}
      {query.data && <Stretches why={query.data} file={`${jobName} step ${wait.step} why`} />}
    </Paper>
  );
}

function sentWhen(send: Why["send"], why: Why): string {
  if (!send) return "at a time that was not recorded";
  const ms = (send.start_ns - why.start_ns) / 1e6;
  return ms < 0 ? `${formatMs(-ms)} before the wait` : `${formatMs(ms)} into the wait`;
}

function Stretches({ why, file }: { why: Why; file: string }) {
  const whole = Math.max(why.end_ns - why.start_ns, 1);
  const rows = why.stretches.filter((stretch) => stretch.to_ns - stretch.from_ns >= LEAST_SHARE * whole);
  const { receive, send } = why;
  return (
    <>
      <Text size="sm" c="dimmed" mb={6}>
        In step {why.step}, for {why.layer_name || "what belongs to no layer"}
        {receive &&
          `: ended by ${formatBytes(receive.bytes)} from ${receive.peer}, which began to send ${sentWhen(send, why)}`}
      </Text>
      <div
        role="img"
        aria-label={why.text}
        style={{ display: "flex", height: 14, borderRadius: 4, overflow: "hidden" }}
      >
        {why.stretches.map((stretch) => (
          <span
            key={stretch.from_ns}
            style={{
              flex: `${stretch.to_ns - stretch.from_ns} 0 0`,
              background: CAUSES[stretch.cause].color,
            }}
          />
        ))}
      </div>
      <TakeTable file={file} rows={() => whyRows(why)}>
        <Table.ScrollContainer minWidth={320} type="native">
          <Table fz="sm" mt="xs" verticalSpacing={3} horizontalSpacing={6} data-testid="why-stretches">
            <Table.Thead>
              <Table.Tr>
                <Table.Th>What happened</Table.Th>
                <Table.Th>Where</Table.Th>
                <Table.Th ta="right">After</Table.Th>
                <Table.Th ta="right">For</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {rows.map((stretch) => (
                <Table.Tr key={stretch.from_ns} data-cause={stretch.cause}>
                  <Table.Td>
                    <Group gap={8} wrap="nowrap">
                      <span
                        style={{
                          width: 10,
                          height: 10,
                          borderRadius: 3,
                          flex: "none",
                          background: CAUSES[stretch.cause].color,
                        }}
                      />
                      <div>
                        {CAUSES[stretch.cause].label}
                        {stretch.ahead.length > 0 && (
                          <Text span size="sm" c="dimmed">
                            {" "}
                            behind{" "}
                            {stretch.ahead
                              .slice(0, 3)
                              .map(
                                (other) => `${other.layer_name || "control"} (${formatMs(other.ns / 1e6)})`,
                              )
                              .join(", ")}
                          </Text>
                        )}
                      </div>
                    </Group>
                  </Table.Td>
                  <Table.Td>
                    {stretch.party}
                    {stretch.peer && ` → ${stretch.peer}`}
                  </Table.Td>
                  <Table.Td ta="right" className="ty-number" c="dimmed">
                    {formatMs((stretch.from_ns - why.start_ns) / 1e6)}
                  </Table.Td>
                  <Table.Td ta="right" className="ty-number" fw={600}>
                    {formatMs((stretch.to_ns - stretch.from_ns) / 1e6)}
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      </TakeTable>
    </>
  );
}
