import { Button, Center, Code, Group, Paper, PasswordInput, Stack, Text, Title } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { ApiProblem, client, unwrap } from "../api/client";
import { usePageTitle } from "../components/usePageTitle";
import { sessionQuery } from "./session";

/** Asks for a token. `again`: the page was open before, and waits behind this form. */
export function SignIn({ again }: { again: boolean }) {
  usePageTitle("Sign in");
  const queries = useQueryClient();
  const [token, setToken] = useState("");
  const signIn = useMutation({
    mutationFn: () => unwrap(client.POST("/api/v1/session", { body: { token } })),
    onSuccess: async (session) => {
      // Who was refused a moment ago may still be asking: that answer is from before.
      await queries.cancelQueries(sessionQuery);
      queries.setQueryData(sessionQuery.queryKey, session);
      void queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== "session" });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    signIn.mutate();
  };
  return (
    <Center component="main" mih="100dvh" p="md">
      <Paper p="xl" w="100%" maw={420} data-testid="sign-in">
        <form onSubmit={submit}>
          <Stack gap="md">
            <Group gap={10} wrap="nowrap">
              <img src="/trainyard.svg" alt="" width={32} height={32} />
              <Title order={1} fz={{ base: "h3", sm: "h2" }}>
                Sign in to Trainyard
              </Title>
            </Group>
            {again && (
              <Text size="sm">
                Your session has ended. The page behind this form is as you left it; for somebody else it
                begins anew.
              </Text>
            )}
            {/* Password managers keep a password for a name. */}
            <input type="text" name="username" value="trainyard" autoComplete="username" hidden readOnly />
            <PasswordInput
              label="Token"
              description={
                <>
                  Yours: an admin makes it. The first admin's was printed when the server first started, or is
                  its <Code>TRAINYARD_TOKEN</Code>
                </>
              }
              name="token"
              autoComplete="current-password"
              autoFocus
              required
              withAsterisk={false}
              value={token}
              onChange={(event) => setToken(event.currentTarget.value)}
              error={signIn.error && said(signIn.error)}
              data-testid="token"
            />
            <Button type="submit" loading={signIn.isPending} fullWidth>
              Sign in
            </Button>
          </Stack>
        </form>
      </Paper>
    </Center>
  );
}

function said(error: Error): string {
  return error instanceof ApiProblem && error.status === 401
    ? "This token is nobody's, or it has expired or was revoked."
    : error.message;
}
