import { Button, Group, Loader, Modal, Paper, Skeleton, Text, Title } from "@mantine/core";
import { useDisclosure, useMediaQuery } from "@mantine/hooks";
import { IconTable } from "@tabler/icons-react";
import type { JobSpec, Override, PlanView } from "../../api/types";
import { PlanTable } from "../../components/PlanTable";
import { Problem } from "../../components/Problem";
import { TakeTable } from "../../components/TakeTable";
import type { Errors } from "../../form/errors";
import { planRows } from "../../lib/planRow";
import { BeforeLaunch } from "./BeforeLaunch";
import { HeldCode } from "./HeldCode";
import { PlanEditor } from "./PlanEditor";
import type { usePlanPreview } from "./usePlanPreview";

interface Props {
  preview: ReturnType<typeof usePlanPreview>;
  overrides: Override[];
  errors: Errors;
  onOverrides: (overrides: Override[]) => void;
}

/** What the service would do with the form as it is, and the way to change it layer by layer. */
export function PlanPreview({ preview, overrides, errors, onOverrides }: Props) {
  const [editing, editor] = useDisclosure(false);
  const phone = useMediaQuery("(max-width: 48em)");
  const editable = preview.last !== undefined && preview.last.layers.length > 0;
  return (
    <Paper p="sm" data-testid="plan-preview" aria-busy={preview.outdated || preview.isFetching}>
      <Group justify="space-between" mb={4} wrap="nowrap">
        <Title order={2} fz="md">
          The plan
        </Title>
        {editable && (
          <Button
            size="compact-sm"
            variant="light"
            leftSection={<IconTable size={14} />}
            onClick={editor.open}
            data-testid="edit-plan"
          >
            Edit layers
          </Button>
        )}
      </Group>
      {preview.held && <HeldCode action="Preview" onRelease={preview.preview} />}
      {preview.failureReason && !preview.error && (
        <Text size="xs" c="dimmed" mb="sm" data-testid="plan-busy">
          The service is asked again in some seconds: {preview.failureReason.message}
        </Text>
      )}
      <Answer preview={preview} />
      {preview.last && (
        <Modal
          opened={editing}
          onClose={editor.close}
          size="92rem"
          fullScreen={phone}
          title="The plan, layer by layer"
        >
          <PlanEditor
            plan={preview.last}
            outdated={preview.outdated}
            overrides={overrides}
            errors={preview.error ? errors : []}
            onChange={onOverrides}
          />
        </Modal>
      )}
    </Paper>
  );
}

function Answer({ preview }: { preview: ReturnType<typeof usePlanPreview> }) {
  if (preview.error && !preview.held)
    return <Problem error={preview.error} testId="plan-problem" onRetry={() => void preview.refetch()} />;
  if (preview.data)
    return (
      <>
        <Found plan={preview.data} again={preview.outdated && !preview.held} dimmed={preview.held} />
        {!preview.outdated && !preview.held && (
          <BeforeLaunch key={preview.asked} plan={preview.data} spec={JSON.parse(preview.asked) as JobSpec} />
        )}
      </>
    );
  if (preview.held) return null;
  return (
    <>
      <Planning />
      <Skeleton height={200} />
    </>
  );
}

interface FoundProps {
  plan: PlanView;
  /** Whether it is of before the last change, and another one is being made. */
  again: boolean;
  dimmed: boolean;
}

function Found({ plan, again, dimmed }: FoundProps) {
  const table = <PlanTable plan={plan} brief />;
  return (
    <>
      {again ? (
        <Planning />
      ) : (
        <Text size="xs" c="dimmed" mb="sm">
          What each layer of the model would do, made by {plan.strategy}
        </Text>
      )}
      <div style={{ opacity: again || dimmed ? 0.5 : 1 }}>
        {plan.layers.length > 0 ? (
          <TakeTable file={`${plan.strategy} plan`} rows={() => planRows(plan)}>
            {table}
          </TakeTable>
        ) : (
          table
        )}
      </div>
    </>
  );
}

function Planning() {
  return (
    <Group gap={6} mb="sm" role="status" data-testid="planning">
      <Loader size={12} />
      <Text size="xs" c="dimmed">
        Planning …
      </Text>
    </Group>
  );
}
