import { Button, Stack, Table, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { axesQuery } from "../../api/queries";
import type { Override, PlanView } from "../../api/types";
import { PlanHead } from "../../components/PlanHead";
import { type Errors, sentence } from "../../form/errors";
import { humanize } from "../../lib/format";
import { axisOf, CHOICES, choose, forget, refusals } from "../../lib/overrides";
import { PlanEditorRow } from "./PlanEditorRow";

interface Props {
  plan: PlanView;
  /** Whether the plan is of before the last change. */
  outdated: boolean;
  overrides: Override[];
  /** What was refused of the specification as it is. */
  errors: Errors;
  onChange: (overrides: Override[]) => void;
}

const AT_ONCE = 60;

/** The plan as a table of choices. What is changed by hand becomes an override of its layer. */
export function PlanEditor({ plan, outdated, overrides, errors, onChange }: Props) {
  const axes = useQuery(axesQuery).data ?? [];
  const [sought, setSought] = useState("");
  const [shown, setShown] = useState(AT_ONCE);
  // Where only one value is built there is nothing to choose.
  const choices = CHOICES.filter((choice) => {
    const axis = axes.find(({ name }) => name === axisOf(choice));
    return !axis || axis.values.filter((value) => value.available).length > 1;
  });
  const { at, elsewhere } = refusals(
    errors,
    plan.layers.map(({ row }) => row.layer),
    overrides,
  );
  const found = plan.layers.filter(({ row }) =>
    `${row.layer} ${row.kind}`.toLowerCase().includes(sought.toLowerCase()),
  );
  // What was refused is never among the rows that are left out.
  const rows = found.filter(({ row }, index) => index < shown || at.has(row.layer));
  return (
    <Stack gap="sm" data-testid="plan-editor" aria-busy={outdated}>
      <PlanHead plan={plan} />
      {at.size > 0 && (
        <Text size="sm" c="red">
          Refused at {[...at.keys()].map((layer) => layer || "(root)").join(", ")}: nothing is launched like
          this.
        </Text>
      )}
      {elsewhere.map((error) => (
        <Text key={error.field} size="sm" c="red" data-testid="plan-editor-problem">
          {error.field}: {sentence(error)}
        </Text>
      ))}
      <TextInput
        size="xs"
        placeholder="Find layers by name or class"
        aria-label="Find layers"
        value={sought}
        onChange={(event) => setSought(event.currentTarget.value)}
      />
      <Table.ScrollContainer minWidth={1100} maxHeight="60vh" type="native">
        <Table fz="xs" horizontalSpacing={6} verticalSpacing={4} stickyHeader data-testid="plan-choices">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Layer</Table.Th>
              <Table.Th ta="right">Parameters</Table.Th>
              <Table.Th ta="right">Wire/step</Table.Th>
              {choices.map((choice) => (
                <Table.Th key={choice}>{humanize(choice)}</Table.Th>
              ))}
              <Table.Th />
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map((layer) => (
              <PlanEditorRow
                key={layer.row.position}
                layer={layer}
                choices={choices}
                axes={axes}
                overrides={overrides}
                outdated={outdated}
                errors={at.get(layer.row.layer) ?? []}
                onChoice={(choice, value) => onChange(choose(overrides, layer.row.layer, choice, value))}
                onForget={() => onChange(forget(overrides, layer.row.layer))}
              />
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {rows.length < found.length && (
        <Button size="compact-sm" variant="subtle" onClick={() => setShown(shown + AT_ONCE)}>
          {found.length - rows.length} more layers
        </Button>
      )}
    </Stack>
  );
}
