import { Alert, Button, List } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { ApiProblem } from "../api/client";
import { grouped, several } from "../form/errors";
import { Marked } from "./Marked";

/** An error with everything that the service says about it: what, the rules and the remedies. */
export function Problem({ error, onRetry, testId }: { error: Error; onRetry?: () => void; testId?: string }) {
  const known = error instanceof ApiProblem ? error : null;
  const errors = known?.errors ?? [];
  return (
    <Alert
      color="red"
      icon={<IconAlertTriangle />}
      title={known?.title ?? "Something went wrong"}
      data-testid={testId ?? "problem"}
      role="alert"
    >
      {errors.length === 0 && <Marked text={error.message} />}
      {errors.length > 0 && (
        <List size="sm" spacing={4} listStyleType="none">
          {grouped(errors).map(({ error: entry, fields }) => (
            <List.Item key={`${entry.field} ${entry.rule}`}>
              {entry.field && <b>{several(fields, 3)}: </b>}
              <Marked text={`${entry.rule}. ${entry.remedy ?? ""}`} />
            </List.Item>
          ))}
        </List>
      )}
      {onRetry && (
        <Button display="block" size="compact-sm" variant="light" color="red" mt="xs" onClick={onRetry}>
          Ask again
        </Button>
      )}
    </Alert>
  );
}
