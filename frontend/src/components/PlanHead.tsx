import { Alert, Group, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import type { ReactNode } from "react";
import type { PlanView } from "../api/types";
import { formatNumber } from "../lib/format";
import { budgetTotals, wireBytes } from "../lib/planRow";
import { about } from "../lib/raceTakes";
import { Marked } from "./Marked";
import { Term } from "./Term";

/** What one should know of a plan before its layers: totals, which override set what, warnings. */
export function PlanHead({ plan, notes = plan.notes }: { plan: PlanView; notes?: string[] }) {
  return (
    <>
      <Group gap="lg" data-testid="plan-totals">
        <Total
          label="on the wire per step"
          value={
            plan.wire_bytes_per_step === null
              ? "PyTorch's own"
              : wireBytes(plan.wire_bytes_per_step, plan.wire_exact)
          }
        />
        <Total
          label={<Term name="unit">{plan.units === 1 ? "unit" : "units"}</Term>}
          value={formatNumber(plan.units, 6)}
        />
        <Total
          label={plan.parameters === 1 ? "parameter" : "parameters"}
          value={formatNumber(plan.parameters, 6)}
        />
        <Total
          label={plan.parties.length === 1 ? "process" : "processes"}
          value={String(plan.parties.length)}
        />
        {typeof plan.expected_s === "number" && (
          <Total label="expected to take" value={about(plan.expected_s)} />
        )}
        {budgetTotals(plan).map(([label, value]) => (
          <Total key={label} label={label} value={value} />
        ))}
      </Group>
      {notes.map((note) => (
        <Text key={note} size="xs" c="dimmed" data-testid="plan-note">
          <Marked text={note} />
        </Text>
      ))}
      {plan.warnings.map((warning) => (
        <Alert key={warning} color="yellow" icon={<IconAlertTriangle />} p="xs" data-testid="plan-warning">
          <Marked text={warning} />
        </Alert>
      ))}
      {plan.peer && (
        <Text size="sm" c="dimmed">
          Run by PyTorch's own {plan.peer}, which decides layer by layer itself.
        </Text>
      )}
    </>
  );
}

function Total({ label, value }: { label: ReactNode; value: string }) {
  return (
    <div>
      <Text fw={700} className="ty-number">
        {value}
      </Text>
      <Text size="xs" c="dimmed">
        {label}
      </Text>
    </div>
  );
}
