import { Button, Group, Paper, Skeleton, Text, Title } from "@mantine/core";
import { PlanTable } from "../../components/PlanTable";
import { Problem } from "../../components/Problem";
import type { usePlanPreview } from "./usePlanPreview";

/** What the service would do with the form as it is. */
export function PlanPreview({ preview }: { preview: ReturnType<typeof usePlanPreview> }) {
  return (
    <Paper p="sm" data-testid="plan-preview">
      <Title order={2} fz="md" mb={4}>
        The plan
      </Title>
      {preview.held && (
        <Group gap="xs" mb="sm" wrap="nowrap" data-testid="plan-held">
          <Text size="xs" c="dimmed">
            Your own code runs when its plan is made: once its entry point is complete, as you leave the
            field.
          </Text>
          <Button
            size="compact-sm"
            variant="light"
            style={{ flex: "none" }}
            onClick={preview.preview}
            data-testid="plan-now"
          >
            Preview
          </Button>
        </Group>
      )}
      <Answer preview={preview} />
    </Paper>
  );
}

function Answer({ preview }: { preview: ReturnType<typeof usePlanPreview> }) {
  if (preview.error && !preview.held) return <Problem error={preview.error} testId="plan-problem" />;
  if (preview.data)
    return (
      <div style={{ opacity: preview.outdated || preview.held ? 0.5 : 1 }}>
        <Text size="xs" c="dimmed" mb="sm">
          What each layer of the model would do, made by {preview.data.strategy}
        </Text>
        <PlanTable plan={preview.data} brief />
      </div>
    );
  if (preview.held) return null;
  return (
    <>
      <Text size="xs" c="dimmed" mb="sm">
        The model is being described …
      </Text>
      <Skeleton height={200} />
    </>
  );
}
