import { Paper } from "@mantine/core";
import type { PlanView } from "../../api/types";
import { PlanTable } from "../../components/PlanTable";

export function PlanPanel({ plan, layer }: { plan: PlanView; layer?: number }) {
  return (
    <Paper p="sm">
      <PlanTable plan={plan} layer={layer} />
    </Paper>
  );
}
