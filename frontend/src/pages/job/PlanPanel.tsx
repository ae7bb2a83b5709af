import { Paper } from "@mantine/core";
import { ForMembers } from "../../access/ForMembers";
import type { JobSpec, PlanView } from "../../api/types";
import { PlanTable } from "../../components/PlanTable";
import { TakeTable } from "../../components/TakeTable";
import { WhereCodecsPay } from "../../components/WhereCodecsPay";
import { WorkerMemory } from "../../components/WorkerMemory";
import { askable } from "../../lib/askable";
import { planRows } from "../../lib/planRow";

interface Props {
  /** What its files are called. */
  jobName: string;
  plan: PlanView;
  spec: JobSpec;
  layer?: number;
}

export function PlanPanel({ jobName, plan, spec, layer }: Props) {
  const asked = askable(plan, spec).map(({ name }) => name);
  return (
    <Paper p="sm">
      <TakeTable file={`${jobName} plan`} rows={() => planRows(plan)}>
        <PlanTable plan={plan} layer={layer} />
      </TakeTable>
      <ForMembers>
        {asked.includes("codecs") && <WhereCodecsPay spec={spec} file={jobName} />}
        {asked.includes("memory") && <WorkerMemory spec={spec} file={jobName} />}
      </ForMembers>
    </Paper>
  );
}
