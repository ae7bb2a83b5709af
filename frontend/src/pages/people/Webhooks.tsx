import { Badge, Button, Paper, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { answered, client, unwrap } from "../../api/client";
import { webhooksQuery } from "../../api/peopleQueries";
import type { Webhook } from "../../api/types";
import { Problem } from "../../components/Problem";
import { stateOf } from "../../lib/webhooks";
import { ConfirmButton } from "./ConfirmButton";
import { Deliveries } from "./Deliveries";
import { MakeWebhook } from "./MakeWebhook";
import { usePeopleChange } from "./usePeopleChange";

/** Addresses that are told when jobs and races end, and whether messages arrive. */
export function Webhooks() {
  const { data: hooks, error, refetch } = useQuery(webhooksQuery);
  return (
    <Paper p="sm" data-testid="webhooks">
      <Title order={2} fz="md" mb={4}>
        Webhooks
      </Title>
      {error && <Problem error={error} onRetry={() => void refetch()} />}
      {hooks?.length === 0 && (
        <Text size="sm" c="dimmed">
          There is none. The server tells a webhook when jobs or races have ended.
        </Text>
      )}
      {hooks && hooks.length > 0 && (
        <Table className="ty-table" verticalSpacing={6}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Name</Table.Th>
              <Table.Th>Address</Table.Th>
              <Table.Th w={230}>Told of</Table.Th>
              <Table.Th w={130}>Last message</Table.Th>
              <Table.Th w={250} aria-label="Look, try, remove" />
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {hooks.map((hook) => (
              <Row key={hook.id} hook={hook} />
            ))}
          </Table.Tbody>
        </Table>
      )}
      <MakeWebhook />
    </Paper>
  );
}

function Row({ hook }: { hook: Webhook }) {
  const [open, setOpen] = useState(false);
  const { id, name, owner, host, events, everybodys, last } = hook;
  const path = { params: { path: { webhook_id: id } } };
  const attempt = usePeopleChange(
    () => unwrap(client.POST("/api/v1/webhooks/{webhook_id}/test", path)),
    "Not sent",
  );
  const remove = usePeopleChange(
    () => answered(client.DELETE("/api/v1/webhooks/{webhook_id}", path)),
    "Not removed",
  );
  const of = everybodys ? "everybody's" : owner ? `${owner}'s` : "nobody's";
  return (
    <>
      <Table.Tr data-testid={`webhook-${id}`}>
        <Table.Td style={{ overflowWrap: "anywhere" }}>{name}</Table.Td>
        <Table.Td data-label="Address" style={{ overflowWrap: "anywhere" }}>
          {host}
        </Table.Td>
        <Table.Td data-label="Told of">
          {events.join(", ")}
          <Text size="xs" c="dimmed">
            {of}
          </Text>
        </Table.Td>
        <Table.Td data-label="Last message">
          {last ? (
            <Badge variant="light" color={stateOf(last).color} title={last.trouble ?? undefined}>
              {stateOf(last).word}
            </Badge>
          ) : (
            "none yet"
          )}
        </Table.Td>
        <Table.Td>
          <Button
            size="compact-xs"
            variant="subtle"
            aria-expanded={open}
            aria-label={`Messages to ${name}`}
            onClick={() => setOpen(!open)}
            data-testid={`messages-${id}`}
          >
            Messages
          </Button>
          <Button
            size="compact-xs"
            variant="subtle"
            loading={attempt.isPending}
            aria-label={`Send a test to ${name}`}
            onClick={() => attempt.mutate(undefined, { onSuccess: () => setOpen(true) })}
            data-testid={`try-${id}`}
          >
            Test
          </Button>
          <ConfirmButton
            label="Remove"
            about={name}
            title={`Remove the webhook ${name}?`}
            keep="Keep it"
            pending={remove.isPending}
            onConfirm={() => remove.mutateAsync(undefined)}
          >
            It is told nothing more, what it has not taken yet is not sent again, and its messages go.
          </ConfirmButton>
        </Table.Td>
      </Table.Tr>
      {open && (
        <Table.Tr>
          <Table.Td colSpan={5}>
            <Deliveries webhook={id} />
          </Table.Td>
        </Table.Tr>
      )}
    </>
  );
}
