import { Button, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { axesQuery } from "../../api/queries";
import type { Override, PlanView } from "../../api/types";
import { PlanHead } from "../../components/PlanHead";
import { type Errors, grouped, sentence, several } from "../../form/errors";
import { humanize } from "../../lib/format";
import { layerTitle } from "../../lib/layerTitle";
import {
  axisOf,
  CHOICES,
  type Choice,
  choose,
  chooseOptions,
  forget,
  meant,
  only,
  refusals,
  some,
} from "../../lib/overrides";
import { wireHead } from "../../lib/planRow";
import { moveBetweenCells } from "./moveBetweenCells";
import { OverrideList } from "./OverrideList";
import { PlanEditorRow } from "./PlanEditorRow";
import { revealCell } from "./revealCell";
import { SeveralLayers } from "./SeveralLayers";

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

/** The plan as a table of choices. What is changed by hand becomes an override: of one layer, or of all that are shown. */
export function PlanEditor({ plan, outdated, overrides, errors, onChange }: Props) {
  const axes = useQuery(axesQuery).data ?? [];
  const [name, setName] = useState("");
  const [kind, setKind] = useState<string | null>(null);
  const [shown, setShown] = useState(AT_ONCE);
  // Where only one value is built there is nothing to choose.
  const choices = CHOICES.filter((choice) => {
    const axis = axes.find(({ name }) => name === axisOf(choice));
    return !axis || axis.values.filter((value) => value.available).length > 1;
  });
  const all = plan.layers.map(({ row }) => row);
  const { at, by, elsewhere } = refusals(
    errors,
    all.map(({ layer }) => layer),
    overrides,
  );
  const target = some(name, kind);
  const found = new Set(meant(target, all));
  const shownRows = plan.layers.filter(({ row }) => found.has(row));
  // What was refused is never among the rows that are left out.
  const rows = shownRows.filter(({ row }, index) => index < shown || at.has(row.layer));
  const stale = outdated || errors.length > 0;
  const set = (of: typeof target, choice: Choice, value: string | number | null) =>
    onChange(choose(overrides, all, of, choice, value));
  return (
    <Stack gap="sm" data-testid="plan-editor" aria-busy={outdated}>
      {/* The overrides' own notes, which come first, are in the list below. */}
      <PlanHead plan={plan} notes={stale ? [] : plan.notes.slice(overrides.length)} />
      <OverrideList
        overrides={overrides}
        notes={stale ? [] : plan.notes}
        errors={by}
        onRemove={(place) => onChange(overrides.filter((_, index) => index !== place))}
      />
      <div role="status">
        {at.size > 0 && (
          <Text size="sm" c="red" data-testid="plan-editor-refused">
            Refused at {several(all.filter(({ layer }) => at.has(layer)).map(layerTitle))}: nothing is
            launched like this.
          </Text>
        )}
        {grouped(elsewhere).map(({ error, fields }) => (
          <Text key={error.field} size="sm" c="red" data-testid="plan-editor-problem">
            {several(fields)}: {sentence(error)}
          </Text>
        ))}
      </div>
      <SeveralLayers
        name={name}
        kind={kind}
        kinds={[...new Set(all.map((row) => row.kind))].sort()}
        found={found.size}
        choices={choices}
        axes={axes}
        onName={setName}
        onKind={setKind}
        onSet={(choice, value) => set(target, choice, value)}
      />
      <Table.ScrollContainer minWidth={1100} maxHeight="60vh" type="native" className="ty-editor">
        <Table
          fz="xs"
          horizontalSpacing={6}
          verticalSpacing={4}
          stickyHeader
          data-testid="plan-choices"
          onFocusCapture={revealCell}
          onKeyDownCapture={moveBetweenCells}
        >
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Layer</Table.Th>
              <Table.Th ta="right">Parameters</Table.Th>
              <Table.Th ta="right">{wireHead(plan)}</Table.Th>
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
                stale={stale}
                errors={at.get(layer.row.layer) ?? []}
                onChoice={(choice, value) => set(only(layer.row.layer), choice, value)}
                onOptions={(choice, value, options) =>
                  onChange(chooseOptions(overrides, all, only(layer.row.layer), choice, value, options))
                }
                onForget={() => onChange(forget(overrides, layer.row.layer))}
              />
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {rows.length < shownRows.length && (
        <Button size="compact-sm" variant="subtle" onClick={() => setShown(shown + AT_ONCE)}>
          {shownRows.length - rows.length} more layers
        </Button>
      )}
      <Text size="xs" c="dimmed">
        Ctrl and an arrow key go from cell to cell; Delete takes a choice back.
      </Text>
    </Stack>
  );
}
