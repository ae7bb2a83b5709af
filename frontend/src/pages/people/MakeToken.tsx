import { Alert, Button, Code, CopyButton, Group, NumberInput, Select, TextInput } from "@mantine/core";
import { useWho } from "../../access/useWho";
import { client, unwrap } from "../../api/client";
import type { User } from "../../api/types";
import { useAddForm } from "../../components/useAddForm";
import { type Role, upTo } from "../../lib/rights";
import { usePeopleChange } from "./usePeopleChange";

interface Props {
  /** Whom it may be for; none: oneself. */
  users: User[];
  self: string;
}

interface Fields {
  name: string;
  user: string;
  days: number | string;
  /** What it may at most, where somebody has said so. */
  chosen: Role | null;
}

/** Makes a token and shows it, this once. */
export function MakeToken({ users, self }: Props) {
  const { role: own } = useWho();
  const scopes = (user: string) =>
    upTo(users.find((other) => other.name === user)?.role ?? own).filter((scope) =>
      upTo(own).includes(scope),
    );
  const scope = ({ user, chosen }: Fields) =>
    chosen !== null && scopes(user).includes(chosen) ? chosen : (scopes(user).at(-1) ?? "viewer");
  const make = usePeopleChange(
    (given: Fields) =>
      unwrap(
        client.POST("/api/v1/tokens", {
          body: {
            name: given.name.trim(),
            user: given.user,
            scope: scope(given),
            days: typeof given.days === "number" ? given.days : null,
          },
        }),
      ),
    "No token made",
  );
  const empty: Fields = { name: "", user: self, days: "", chosen: null };
  const { fields, put, typed, submit } = useAddForm(empty, ["name"], make);
  return (
    <>
      <form onSubmit={submit}>
        <Group gap="xs" align="flex-end" mt="sm">
          <TextInput
            size="xs"
            label="Make a token for"
            placeholder="laptop, nightly runs"
            required
            withAsterisk={false}
            maxLength={100}
            {...typed("name")}
            data-testid="new-token"
          />
          {users.length > 0 && (
            <Select
              size="xs"
              w={160}
              label="Whose"
              data={users.map((other) => other.name)}
              value={fields.user}
              allowDeselect={false}
              onChange={(given) => given && put({ user: given })}
              data-testid="new-token-user"
            />
          )}
          <Select
            size="xs"
            w={120}
            label="May at most"
            data={scopes(fields.user)}
            value={scope(fields)}
            allowDeselect={false}
            onChange={(given) => put({ chosen: given as Role | null })}
          />
          <NumberInput
            size="xs"
            w={210}
            label="Days (empty: 90, 0: for ever)"
            placeholder="90, or as long as yours"
            min={0}
            max={3650}
            allowDecimal={false}
            value={fields.days}
            onChange={(days) => put({ days })}
          />
          <Button type="submit" size="xs" variant="light" loading={make.isPending} data-testid="make-token">
            Make
          </Button>
        </Group>
      </form>
      {make.data && (
        <Alert
          color="green"
          mt="sm"
          title={`The token ${make.data.name} of ${make.data.user}, shown only now`}
          withCloseButton
          closeButtonLabel="It is kept"
          onClose={make.reset}
          data-testid="made-token"
        >
          <Group gap="xs">
            <Code style={{ overflowWrap: "anywhere" }} data-testid="the-token">
              {make.data.token}
            </Code>
            <CopyButton value={make.data.token}>
              {({ copied, copy }) => (
                <Button size="compact-xs" variant="default" onClick={copy}>
                  {copied ? "Copied" : "Copy"}
                </Button>
              )}
            </CopyButton>
          </Group>
          It is what its user signs in with, and what commands read from <Code>TRAINYARD_TOKEN</Code>. It{" "}
          {make.data.expires_at
            ? `expires on ${new Date(make.data.expires_at).toLocaleDateString()}`
            : "never expires"}
          . The server keeps only its hash.
        </Alert>
      )}
    </>
  );
}
