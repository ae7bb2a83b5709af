import { notifications } from "@mantine/notifications";
import { IconLogout } from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import { answered, client } from "../api/client";
import { HeaderButton } from "../components/HeaderButton";
import { sessionQuery } from "./session";

/** Ends this browser's session, where the service asks for one. The page begins anew: nothing that it showed stays. */
export function SignOut() {
  const { data: session } = useQuery(sessionQuery);
  const signOut = useMutation({
    mutationFn: () => answered(client.DELETE("/api/v1/session")),
    onSuccess: () => window.location.reload(),
    onError: (error) => notifications.show({ color: "red", title: "Not signed out", message: error.message }),
  });
  if (session?.access !== "token") return null;
  return (
    <HeaderButton
      label={`Sign out ${session.user ?? ""}`.trim()}
      loading={signOut.isPending}
      onClick={() => signOut.mutate()}
    >
      <IconLogout size={18} />
    </HeaderButton>
  );
}
