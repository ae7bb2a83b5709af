import { Paper } from "@mantine/core";
import type { PlanView } from "../../api/types";
import { PlanTable } from "../../components/PlanTable";
import { TakeTable } from "../../components/TakeTable";
import { planRows } from "../../lib/planRow";

interface Props {
  /** What its files are called. */
  jobName: string;
  plan: PlanView;
  layer?: number;
}

export function PlanPanel({ jobName, plan, layer }: Props) {
  return (
    <Paper p="sm">
      <TakeTable file={`${jobName} plan`} rows={() => planRows(plan)}>
        <PlanTable plan={plan} layer={layer} />
      </TakeTable>
    </Paper>
  );
}
