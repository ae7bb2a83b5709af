import { Paper } from "@mantine/core";
import type { PlanView } from "../../api/types";
import { PlanTable } from "../../components/PlanTable";

interface Props {
  /** What its files are called. */
  jobName: string;
  plan: PlanView;
  layer?: number;
}

export function PlanPanel({ jobName, plan, layer }: Props) {
  return (
    <Paper p="sm">
      <PlanTable plan={plan} file={`${jobName} plan`} layer={layer} />
    </Paper>
  );
}
