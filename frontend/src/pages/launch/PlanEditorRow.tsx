import { ActionIcon, NativeSelect, NumberInput, Table, Text } from "@mantine/core";
import { IconArrowBackUp } from "@tabler/icons-react";
import type { AxisEntry, Override, PlanView } from "../../api/types";
import { type Errors, sentence } from "../../form/errors";
import { formatBytes, humanize } from "../../lib/format";
import { axisOf, byHand, type Choice, chosen, type Value } from "../../lib/overrides";

interface Props {
  layer: PlanView["layers"][number];
  /** The columns. */
  choices: Choice[];
  axes: AxisEntry[];
  overrides: Override[];
  outdated: boolean;
  errors: Errors;
  onChoice: (choice: Choice, value: Value) => void;
  onForget: () => void;
}

/** In pixels, of the choices with long names. */
const WIDTHS: Partial<Record<Choice, number>> = { exchange: 150, depart: 126, returns: 116 };

/** One layer: what it does on every axis, to be changed; what that costs; what is wrong with it. */
export function PlanEditorRow(props: Props) {
  const { layer, choices, axes, overrides, outdated, errors, onChoice, onForget } = props;
  const { row, plan } = layer;
  const own = byHand(overrides, row.layer);
  const name = row.layer || "(root)";
  // What was chosen a moment ago is shown before the plan that follows from it has come.
  const value = (choice: Choice) => overrides[own]?.[choice] ?? chosen(plan, choice);
  const field = (choice: Choice) => {
    const common = {
      size: "xs" as const,
      "aria-label": `${humanize(choice)} of ${name}`,
      "data-testid": `choice-${row.layer}-${choice}`,
    };
    if (choice === "size")
      return value("unit") === "layer" ? null : (
        <NumberInput
          {...common}
          w={90}
          min={1}
          hideControls
          value={value(choice) ?? ""}
          onChange={(entry) => onChoice(choice, typeof entry === "number" ? entry : null)}
        />
      );
    return (
      <NativeSelect
        {...common}
        miw={WIDTHS[choice] ?? 92}
        title={String(value(choice) ?? "")}
        data={options(choice, axes, value(choice))}
        value={String(value(choice) ?? "")}
        fw={(overrides[own]?.[choice] ?? null) === null ? undefined : 700}
        onChange={(event) => onChoice(choice, event.currentTarget.value)}
      />
    );
  };
  return (
    <>
      <Table.Tr data-testid={`plan-editor-row-${row.layer}`} data-refused={errors.length > 0}>
        <Table.Td>
          {name}{" "}
          <Text span size="xs" c="dimmed">
            {row.kind}
          </Text>
          {(plan.overrides ?? []).length > 0 && (
            <Text size="xs" c="dimmed">
              {own >= 0 ? "changed by hand" : `by overrides.${plan.overrides?.join(", ")}`}
            </Text>
          )}
        </Table.Td>
        <Table.Td ta="right" className="ty-number">
          {row.parameters.toLocaleString("en")}
        </Table.Td>
        <Table.Td ta="right" className="ty-number" style={{ opacity: outdated || errors.length ? 0.5 : 1 }}>
          {formatBytes(row.wire_bytes)}
        </Table.Td>
        {choices.map((choice) => (
          <Table.Td key={choice}>{field(choice)}</Table.Td>
        ))}
        <Table.Td>
          {own >= 0 && (
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label={`Undo the changes of ${name}`}
              data-testid={`forget-${row.layer}`}
              onClick={onForget}
            >
              <IconArrowBackUp size={16} />
            </ActionIcon>
          )}
        </Table.Td>
      </Table.Tr>
      {errors.length > 0 && (
        <Table.Tr>
          <Table.Td colSpan={choices.length + 4}>
            <Text size="xs" c="red" data-testid={`refused-${row.layer}`}>
              {errors.map(sentence).join(" ")}
            </Text>
          </Table.Td>
        </Table.Tr>
      )}
    </>
  );
}

/** The values of an axis; what is not built yet cannot be picked. */
function options(choice: Choice, axes: AxisEntry[], current: Value) {
  const values = axes.find((axis) => axis.name === axisOf(choice))?.values;
  if (values)
    return values.map(({ name, available }) => ({ value: name, label: name, disabled: !available }));
  const known = choice === "update" ? ["worker", "server"] : [];
  return known.includes(String(current)) ? known : [String(current ?? ""), ...known];
}
