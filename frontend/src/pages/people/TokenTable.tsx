import { Paper, Table, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";
import { answered, client } from "../../api/client";
import type { Token } from "../../api/types";
import { TakeTable } from "../../components/TakeTable";
import { formatAge } from "../../lib/format";
import { tokenRows } from "../../lib/peopleCsv";
import { ConfirmButton } from "./ConfirmButton";
import { usePeopleChange } from "./usePeopleChange";

interface Props {
  tokens: Token[];
  /** Whether they are several people's. */
  whose?: boolean;
  /** What makes another one. */
  children: ReactNode;
}

/** Tokens that open something, but for what they are: nobody knows that any more. */
export function TokenTable({ tokens, whose, children }: Props) {
  return (
    <Paper p="sm" data-testid="tokens">
      <Title order={2} fz="md" mb={4}>
        Tokens
      </Title>
      {tokens.length === 0 ? (
        <Text size="sm" c="dimmed">
          There is none.
        </Text>
      ) : (
        <TakeTable file="tokens" rows={() => tokenRows(tokens)}>
          <Table className="ty-table" verticalSpacing={6}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>For</Table.Th>
                {whose && <Table.Th>Whose</Table.Th>}
                <Table.Th w={130}>May at most</Table.Th>
                <Table.Th w={130}>Last used</Table.Th>
                <Table.Th w={130}>Expires</Table.Th>
                <Table.Th w={110} aria-label="Revoke" />
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {tokens.map((token) => (
                <Row key={token.id} token={token} whose={whose} />
              ))}
            </Table.Tbody>
          </Table>
        </TakeTable>
      )}
      {children}
    </Paper>
  );
}

function Row({ token, whose }: { token: Token; whose?: boolean }) {
  const { id, name, user, scope, last_used_at, expires_at, environment } = token;
  const revoke = usePeopleChange(
    () => answered(client.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id: id } } })),
    "Not revoked",
  );
  const expired = expires_at !== null && Date.parse(expires_at) <= Date.now();
  return (
    <Table.Tr data-testid={`token-${id}`}>
      <Table.Td style={{ overflowWrap: "anywhere" }}>{name}</Table.Td>
      {whose && <Table.Td data-label="Whose">{user}</Table.Td>}
      <Table.Td data-label="May at most">{scope}</Table.Td>
      <Table.Td data-label="Last used">
        {last_used_at ? formatAge(Date.now() - Date.parse(last_used_at)) : "never"}
      </Table.Td>
      <Table.Td data-label="Expires">
        {expires_at ? new Date(expires_at).toLocaleDateString() : "never"}
        {expired && (
          <Text span size="sm" c="red">
            {" "}
            (has expired)
          </Text>
        )}
      </Table.Td>
      <Table.Td>
        {environment ? (
          <Text size="xs" c="dimmed">
            the server's own
          </Text>
        ) : (
          <ConfirmButton
            label="Revoke"
            about={`${name} of ${user}`}
            title={`Revoke the token ${name}?`}
            keep="Keep it"
            pending={revoke.isPending}
            onConfirm={() => revoke.mutateAsync(undefined)}
          >
            It opens nothing any more, and whoever signed in with it is signed out.
          </ConfirmButton>
        )}
      </Table.Td>
    </Table.Tr>
  );
}
