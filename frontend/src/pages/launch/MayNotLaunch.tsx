import { Alert, List, Paper, Text } from "@mantine/core";
import { IconLock } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { sessionQuery } from "../../access/session";
import { useWho } from "../../access/useWho";
import { LinkAnchor } from "../../components/links";

interface Props {
  /** The job, or the race, that the form would have been filled from. */
  job?: string;
  race?: string;
}

/** What a viewer sees in place of the form, which they may not submit: who gives the right, and what they may do. */
export function MayNotLaunch({ job, race }: Props) {
  const { user } = useWho();
  const admins = useQuery(sessionQuery).data?.admins ?? [];
  return (
    <>
      <Alert
        color="yellow"
        icon={<IconLock />}
        title="You may look, but not launch"
        data-testid="may-not-launch"
      >
        {user} is signed in here as a viewer. Planning and launching run programs on the server's machine,
        which is for members.{" "}
        {admins.length > 0 ? `An admin makes you one: ${admins.join(", ")}.` : "An admin makes you one."} If
        you are a member already, sign in with a token that may as much.
      </Alert>
      <Paper p="sm">
        <Text size="sm">What you may do:</Text>
        <List size="sm">
          {job && (
            <List.Item>
              <LinkAnchor to="/jobs/$jobId" params={{ jobId: job }} size="sm">
                look at the job that you came from
              </LinkAnchor>
            </List.Item>
          )}
          {race && (
            <List.Item>
              <LinkAnchor to="/races/$raceId" params={{ raceId: race }} size="sm">
                look at the race that you came from
              </LinkAnchor>
            </List.Item>
          )}
          <List.Item>
            look at{" "}
            <LinkAnchor to="/races" size="sm">
              races
            </LinkAnchor>{" "}
            and{" "}
            <LinkAnchor to="/jobs" size="sm">
              jobs
            </LinkAnchor>{" "}
            of everybody, and their plans
          </List.Item>
          <List.Item>
            <LinkAnchor to="/compare" size="sm">
              compare jobs
            </LinkAnchor>
          </List.Item>
        </List>
      </Paper>
    </>
  );
}
