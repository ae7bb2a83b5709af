import { Button, Stack, Text, Title } from "@mantine/core";
import type { ErrorComponentProps } from "@tanstack/react-router";
import { LinkButton } from "./links";

export function NotFoundPage() {
  return (
    <Stack align="flex-start" gap="xs" py="xl">
      <Title order={1}>There is no such page</Title>
      <Text c="dimmed">Races, Jobs and Launch are in the bar above.</Text>
      <LinkButton to="/races" mt="sm">
        To the races
      </LinkButton>
    </Stack>
  );
}

export function ErrorPage({ error, reset }: ErrorComponentProps) {
  return (
    <Stack align="flex-start" gap="xs" py="xl" role="alert">
      <Title order={1}>This page broke</Title>
      <Text c="dimmed">{error instanceof Error ? error.message : String(error)}</Text>
      <Button onClick={reset} mt="sm">
        Try again
      </Button>
    </Stack>
  );
}
