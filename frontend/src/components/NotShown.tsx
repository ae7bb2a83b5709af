import { Stack, Title } from "@mantine/core";
import { ApiProblem } from "../api/client";
import { Problem } from "./Problem";

interface Props {
  /** `job`, `race`. */
  what: string;
  error: Error;
  onRetry: () => void;
}

/** In place of a page about something that is not there, or cannot be had. */
export function NotShown({ what, error, onRetry }: Props) {
  const unknown = error instanceof ApiProblem && error.status === 404;
  return (
    <Stack gap="md">
      <Title order={1} fz={24}>
        {unknown ? `There is no such ${what}` : `This ${what} cannot be shown`}
      </Title>
      <Problem error={error} onRetry={onRetry} />
    </Stack>
  );
}
