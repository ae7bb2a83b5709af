import { Alert, Code, Skeleton, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { ForMembers } from "../../access/ForMembers";
import { useWho } from "../../access/useWho";
import { tokensQuery, usersQuery } from "../../api/peopleQueries";
import { Problem } from "../../components/Problem";
import { usePageTitle } from "../../components/usePageTitle";
import { MEANS } from "../../lib/rights";
import { AuditTable } from "./AuditTable";
import { MakeToken } from "./MakeToken";
import { Secrets } from "./Secrets";
import { TokenTable } from "./TokenTable";
import { UserTable } from "./UserTable";
import { Webhooks } from "./Webhooks";

/** One's own tokens, webhooks and secrets; for admins everybody, their tokens, and who did what. */
export function PeoplePage() {
  const { user, role, asked } = useWho();
  const admin = role === "admin";
  usePageTitle(admin ? "People" : "Tokens");
  return (
    <Stack gap="md" data-testid="people">
      <div>
        <Title order={1} fz={24}>
          {admin ? "People" : "Your tokens"}
        </Title>
        <Text c="dimmed" size="sm">
          {user
            ? `You are ${user}, signed in as ${admin ? "an admin" : `a ${role}, who ${MEANS[role]}`}.`
            : "This server asks nobody who they are."}
        </Text>
      </div>
      {asked && (admin ? <Everybody self={user} /> : <Own self={user} />)}
      {!asked && (
        <Alert color="yellow" data-testid="people-off">
          It has no users: whoever reaches it may do everything. Start it with <Code>--people</Code>, with{" "}
          <Code>TRAINYARD_TOKEN</Code> set, or on an address that other machines reach and without{" "}
          <Code>--insecure</Code>. Below stands what was done, and from where.
        </Alert>
      )}
      <ForMembers>
        <Webhooks />
        <Secrets />
      </ForMembers>
      {admin && <AuditTable />}
    </Stack>
  );
}

function Everybody({ self }: { self: string | null }) {
  const { data: users, error, refetch } = useQuery(usersQuery);
  if (error) return <Problem error={error} onRetry={() => void refetch()} />;
  if (!users || !self) return <Skeleton height={200} />;
  return (
    <>
      <UserTable users={users} self={self} />
      <TokenTable tokens={users.flatMap(({ tokens }) => tokens)} whose>
        <MakeToken users={users} self={self} />
      </TokenTable>
    </>
  );
}

function Own({ self }: { self: string | null }) {
  const { data: tokens, error, refetch } = useQuery(tokensQuery);
  if (error) return <Problem error={error} onRetry={() => void refetch()} />;
  if (!tokens || !self) return <Skeleton height={120} />;
  return (
    <TokenTable tokens={tokens}>
      <MakeToken users={[]} self={self} />
    </TokenTable>
  );
}
