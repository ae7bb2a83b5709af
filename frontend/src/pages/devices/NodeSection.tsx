import { Badge, Box, Group, Paper, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useWho } from "../../access/useWho";
import { maintenanceQuery } from "../../api/shareQueries";
import type { ClusterNode } from "../../api/types";
import { addressWords, drainsOf, freeWords, kinds, outOfUseWords } from "../../lib/devices";
import { formatSpan } from "../../lib/format";
import { DeviceTable } from "./DeviceTable";
import { DrainNode } from "./DrainNode";
import { GiveBack } from "./GiveBack";

/** One machine: how it is reached, whether it is there or drained, and its devices. */
export function NodeSection({ node }: { node: ClusterNode }) {
  const drains = drainsOf(node, useQuery(maintenanceQuery).data ?? []);
  const { id, name, state, seen_at, servers } = node;
  const admin = useWho().role === "admin";
  const away = state === "away";
  return (
    <Stack component="section" gap="sm" aria-label={`node ${name}`} data-testid={`node-${id}`}>
      <Paper p="sm">
        <Group justify="space-between" wrap="nowrap" align="flex-start" gap="sm">
          <div style={{ minWidth: 0, overflowWrap: "anywhere" }}>
            <Group gap={8}>
              <Title order={2} fz="md">
                {name}
              </Title>
              {away && (
                <Badge color="red" variant="light" size="sm">
                  away
                </Badge>
              )}
            </Group>
            {away && (
              <Text size="sm" data-testid={`away-${id}`} title={new Date(seen_at).toLocaleString()}>
                Seen {formatSpan((Date.now() - Date.parse(seen_at)) / 1000)} ago. What runs there may go on.
              </Text>
            )}
            {drains.map((drain) => (
              <Text key={drain.id} size="sm" data-testid={`drained-${id}`}>
                {outOfUseWords(drain)}
              </Text>
            ))}
            <Text size="sm" c="dimmed">
              {freeWords(node)}
            </Text>
            <Text size="xs" c="dimmed" data-testid={`interfaces-${id}`}>
              {addressWords(node)}
            </Text>
            <Text size="xs" c="dimmed">
              {servers.join(", ")}
            </Text>
          </div>
          {admin && (
            <Box style={{ flexShrink: 0 }}>
              {drains.map((drain) => (
                <GiveBack key={drain.id} maintenance={drain} />
              ))}
              {drains.length === 0 && <DrainNode node={node} />}
            </Box>
          )}
        </Group>
      </Paper>
      {kinds(node.devices).map((kind) => (
        <DeviceTable key={kind.kind} kind={kind} of={name} away={away} />
      ))}
    </Stack>
  );
}
