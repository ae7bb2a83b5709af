import { Button, Code, Group, Paper, PasswordInput, Table, Text, TextInput, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { answered, client, unwrap } from "../../api/client";
import { secretsQuery } from "../../api/peopleQueries";
import { Problem } from "../../components/Problem";
import { useAddForm } from "../../components/useAddForm";
import { formatAge } from "../../lib/format";
import { ConfirmButton } from "./ConfirmButton";
import { usePeopleChange } from "./usePeopleChange";

/** Names of one's own secrets: what they are is shown nowhere. */
export function Secrets() {
  const { data: secrets, error, refetch } = useQuery(secretsQuery);
  return (
    <Paper p="sm" data-testid="secrets">
      <Title order={2} fz="md" mb={4}>
        Secrets
      </Title>
      <Text size="sm" c="dimmed">
        A job of yours that names one (<Code>secrets: [HF_TOKEN]</Code>) finds it in the environment variable
        of that name. They are kept encrypted, and nothing shows them again.
      </Text>
      {error && <Problem error={error} onRetry={() => void refetch()} />}
      {secrets && secrets.length > 0 && (
        <Table className="ty-table" verticalSpacing={6} mt="xs">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Name</Table.Th>
              <Table.Th w={160}>Kept</Table.Th>
              <Table.Th w={110} aria-label="Remove" />
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {secrets.map(({ name, changed_at }) => (
              <Row key={name} name={name} at={changed_at} />
            ))}
          </Table.Tbody>
        </Table>
      )}
      <KeepSecret />
    </Paper>
  );
}

function Row({ name, at }: { name: string; at: string }) {
  const remove = usePeopleChange(
    () => answered(client.DELETE("/api/v1/secrets/{name}", { params: { path: { name } } })),
    "Not removed",
  );
  return (
    <Table.Tr data-testid={`secret-${name}`}>
      <Table.Td>
        <Code>{name}</Code>
      </Table.Td>
      <Table.Td data-label="Kept">{formatAge(Date.now() - Date.parse(at))}</Table.Td>
      <Table.Td>
        <ConfirmButton
          label="Remove"
          about={name}
          title={`Remove the secret ${name}?`}
          keep="Keep it"
          pending={remove.isPending}
          onConfirm={() => remove.mutateAsync(undefined)}
        >
          Jobs that run keep what they have. Those that start later fail where they name it.
        </ConfirmButton>
      </Table.Td>
    </Table.Tr>
  );
}

function KeepSecret() {
  const keep = usePeopleChange(
    ({ name, value }: { name: string; value: string }) =>
      unwrap(client.PUT("/api/v1/secrets/{name}", { params: { path: { name } }, body: { value } })),
    "Not kept",
  );
  const { fields, put, typed, submit } = useAddForm({ name: "", value: "" }, ["name", "value"], keep);
  return (
    <form onSubmit={submit}>
      <Group gap="xs" align="flex-end" mt="sm">
        <TextInput
          size="xs"
          w={200}
          label="Keep"
          placeholder="HF_TOKEN"
          required
          withAsterisk={false}
          maxLength={100}
          value={fields.name}
          onChange={(event) => put({ name: event.currentTarget.value.toUpperCase() })}
          data-testid="new-secret"
        />
        <PasswordInput
          size="xs"
          w={320}
          label="Which is"
          autoComplete="off"
          required
          withAsterisk={false}
          {...typed("value")}
          data-testid="new-secret-value"
        />
        <Button type="submit" size="xs" variant="light" loading={keep.isPending} data-testid="keep-secret">
          Keep
        </Button>
      </Group>
    </form>
  );
}
