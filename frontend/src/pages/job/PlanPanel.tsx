import { Paper } from "@mantine/core";
import type { PlanView } from "../../api/types";
import { PlanTable } from "../../components/PlanTable";

export function PlanPanel({ plan }: { plan: PlanView }) {
  return (
    <Paper p="sm">
      <PlanTable plan={plan} />
    </Paper>
  );
}
