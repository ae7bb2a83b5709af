import { Paper, Skeleton, Text, Title } from "@mantine/core";
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
      {preview.error ? (
        <Problem error={preview.error} testId="plan-problem" />
      ) : preview.data ? (
        <div style={{ opacity: preview.outdated ? 0.5 : 1 }}>
          <Text size="xs" c="dimmed" mb="sm">
            What each layer of the model would do, made by {preview.data.strategy}
          </Text>
          <PlanTable plan={preview.data} brief />
        </div>
      ) : (
        <>
          <Text size="xs" c="dimmed" mb="sm">
            The model is being described …
          </Text>
          <Skeleton height={200} />
        </>
      )}
    </Paper>
  );
}
