import { Alert } from "@mantine/core";
import { IconShieldOff } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { sessionQuery } from "./session";

/** Says, on every page, that the server was told to ask nobody. */
export function Insecure() {
  const { data: session } = useQuery(sessionQuery);
  if (session?.access !== "insecure") return null;
  return (
    <Alert color="red" icon={<IconShieldOff />} mb="md" p="xs" data-testid="insecure">
      This server runs with <b>--insecure</b>: it asks nobody who they are, and whoever reaches it can run
      programs on its machine.
    </Alert>
  );
}
