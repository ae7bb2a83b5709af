import { Button, Group, Paper, Select, Skeleton, Table, Text, Title } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { auditQuery, everyUserQuery } from "../../api/peopleQueries";
import type { AuditEntry } from "../../api/types";
import { LinkAnchor } from "../../components/links";
import { Problem } from "../../components/Problem";
import { TakeTable } from "../../components/TakeTable";
import { auditRows, givenBy, targetOf } from "../../lib/audit";

/** Who did what to which thing, when, and from where; newest first. */
export function AuditTable() {
  const [who, setWho] = useState<string | null>(null);
  const audit = useInfiniteQuery(auditQuery(who));
  const users = useQuery(everyUserQuery).data ?? [];
  const entries = audit.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Paper p="sm" data-testid="audit">
      <Group justify="space-between" mb={4} align="flex-end">
        <Title order={2} fz="md">
          What was done
        </Title>
        {users.length > 0 && (
          <Select
            size="xs"
            w={180}
            aria-label="By whom"
            placeholder="By everybody"
            clearable
            searchable
            data={users.map(({ name, removed_at }) => ({
              value: name,
              label: removed_at ? `${name} (removed)` : name,
            }))}
            value={who}
            onChange={setWho}
            data-testid="audit-who"
          />
        )}
      </Group>
      {audit.error && <Problem error={audit.error} onRetry={() => void audit.refetch()} />}
      {audit.isPending && <Skeleton height={120} />}
      {audit.data && entries.length === 0 && (
        <Text size="sm" c="dimmed">
          Nothing yet.
        </Text>
      )}
      {entries.length > 0 && (
        <TakeTable file="audit log" rows={() => auditRows(entries)}>
          <Table className="ty-table" verticalSpacing={4} data-testid="audit-table">
            <Table.Thead>
              <Table.Tr>
                <Table.Th w={215}>When</Table.Th>
                <Table.Th w={150}>Who</Table.Th>
                <Table.Th w={170}>Did</Table.Th>
                <Table.Th>To</Table.Th>
                <Table.Th w={150}>From</Table.Th>
                <Table.Th w={90} className="ty-right">
                  Answer
                </Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {entries.map((entry) => (
                <Row key={entry.id} entry={entry} />
              ))}
            </Table.Tbody>
          </Table>
        </TakeTable>
      )}
      {audit.hasNextPage && (
        <Button
          mt="xs"
          size="xs"
          variant="default"
          loading={audit.isFetchingNextPage}
          onClick={() => void audit.fetchNextPage()}
        >
          Show more
        </Button>
      )}
    </Paper>
  );
}

function Row({ entry }: { entry: AuditEntry }) {
  const { at, who, token, action, target, address, status } = entry;
  return (
    <Table.Tr>
      <Table.Td>{new Date(at).toLocaleString()}</Table.Td>
      <Table.Td data-label="Who" title={token ? `with the token ${token}` : undefined}>
        {who ?? "whoever reached it"}
      </Table.Td>
      <Table.Td data-label="Did">{action.replaceAll("_", " ")}</Table.Td>
      <Table.Td data-label="To" style={{ overflowWrap: "anywhere" }}>
        <Target target={target} />
        <Text size="xs" c="dimmed">
          {givenBy(entry)}
        </Text>
      </Table.Td>
      <Table.Td data-label="From">{address ?? ""}</Table.Td>
      <Table.Td data-label="Answer" className="ty-right ty-number">
        <Text span size="sm" c={status >= 400 ? "red" : undefined}>
          {status}
        </Text>
      </Table.Td>
    </Table.Tr>
  );
}

function Target({ target }: { target: string }) {
  const { kind, id } = targetOf(target);
  if (kind === "jobs" && id) {
    return (
      <LinkAnchor to="/jobs/$jobId" params={{ jobId: id }} size="sm">
        {target}
      </LinkAnchor>
    );
  }
  if (kind === "races" && id) {
    return (
      <LinkAnchor to="/races/$raceId" params={{ raceId: id }} size="sm">
        {target}
      </LinkAnchor>
    );
  }
  return target;
}
