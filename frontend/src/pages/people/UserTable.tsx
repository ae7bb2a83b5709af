import { Button, Group, Paper, Select, Table, Text, TextInput, Title } from "@mantine/core";
import { answered, client, unwrap } from "../../api/client";
import type { User } from "../../api/types";
import { TakeTable } from "../../components/TakeTable";
import { useAddForm } from "../../components/useAddForm";
import { counted, formatAge } from "../../lib/format";
import { userRows } from "../../lib/peopleCsv";
import { MEANS, ROLES, type Role } from "../../lib/rights";
import { ConfirmButton } from "./ConfirmButton";
import { usePeopleChange } from "./usePeopleChange";

/** Everybody who may use the server; what each may do is chosen in their row. */
export function UserTable({ users, self }: { users: User[]; self: string }) {
  return (
    <Paper p="sm" data-testid="users">
      <Title order={2} fz="md" mb={4}>
        Users
      </Title>
      <TakeTable file="users" rows={() => userRows(users)}>
        <Table className="ty-table" verticalSpacing={6}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Name</Table.Th>
              <Table.Th w={150}>Role</Table.Th>
              <Table.Th w={110}>Tokens</Table.Th>
              <Table.Th w={110}>Let in</Table.Th>
              <Table.Th w={110} aria-label="Remove" />
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {users.map((user) => (
              <Row key={user.name} user={user} self={self} />
            ))}
          </Table.Tbody>
        </Table>
      </TakeTable>
      <AddUser />
      <Text size="xs" c="dimmed" mt="xs">
        {ROLES.map((role) => `A${role === "admin" ? "n" : ""} ${role} ${MEANS[role]}.`).join(" ")}
      </Text>
    </Paper>
  );
}

function Row({ user, self }: { user: User; self: string }) {
  const { name, role, tokens, created_at } = user;
  const path = { params: { path: { user: name } } };
  const change = usePeopleChange(
    (given: Role) => unwrap(client.PATCH("/api/v1/users/{user}", { ...path, body: { role: given } })),
    "Role not changed",
  );
  const remove = usePeopleChange(
    () => answered(client.DELETE("/api/v1/users/{user}", path)),
    `${name} is not removed`,
  );
  return (
    <Table.Tr data-testid={`user-${name}`}>
      <Table.Td>
        <Text size="sm" fw={600} style={{ overflowWrap: "anywhere" }}>
          {name}
        </Text>
      </Table.Td>
      <Table.Td>
        <Select
          size="xs"
          aria-label={`Role of ${name}`}
          data={[...ROLES]}
          value={role}
          allowDeselect={false}
          disabled={change.isPending}
          onChange={(given) => given && change.mutate(given as Role)}
          data-testid={`role-${name}`}
        />
      </Table.Td>
      <Table.Td data-label="Tokens">{counted(tokens.length, "token")}</Table.Td>
      <Table.Td data-label="Let in">{formatAge(Date.now() - Date.parse(created_at))}</Table.Td>
      <Table.Td>
        {name !== self && (
          <ConfirmButton
            label="Remove"
            about={name}
            title={`Remove ${name}?`}
            keep="Keep them"
            pending={remove.isPending}
            onConfirm={() => remove.mutateAsync(undefined)}
          >
            {name} is signed out everywhere, and their tokens open nothing any more. Jobs, races and entries
            of the log below go on naming them.
          </ConfirmButton>
        )}
      </Table.Td>
    </Table.Tr>
  );
}

const NOBODY = { name: "", role: "member" as Role };

function AddUser() {
  const add = usePeopleChange(
    ({ name, role }: typeof NOBODY) =>
      unwrap(client.POST("/api/v1/users", { body: { name: name.trim(), role } })),
    "Not let in",
  );
  const { fields, put, typed, submit } = useAddForm(NOBODY, ["name"], add);
  return (
    <form onSubmit={submit}>
      <Group gap="xs" align="flex-end" mt="sm">
        <TextInput
          size="xs"
          label="Let somebody in"
          placeholder="name"
          required
          withAsterisk={false}
          {...typed("name")}
          data-testid="new-user"
        />
        <Select
          size="xs"
          w={120}
          label="As"
          data={[...ROLES]}
          value={fields.role}
          allowDeselect={false}
          onChange={(given) => given && put({ role: given as Role })}
        />
        <Button type="submit" size="xs" variant="light" loading={add.isPending} data-testid="add-user">
          Add
        </Button>
      </Group>
    </form>
  );
}
