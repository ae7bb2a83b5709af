import { ActionIcon, Group, NativeSelect, NumberInput, Table, Text } from "@mantine/core";
import { IconAdjustmentsHorizontal, IconArrowBackUp } from "@tabler/icons-react";
import { type KeyboardEvent, type MouseEvent, useState } from "react";
import type { AxisEntry, Override, PlanView } from "../../api/types";
import { type Errors, sentence } from "../../form/errors";
import { humanize } from "../../lib/format";
import { layerName, layerTitle } from "../../lib/layerTitle";
import {
  byHand,
  type Choice,
  chosen,
  chosenOptions,
  hasOptions,
  only,
  pending,
  refusedChoice,
  refusedOption,
  type Value,
  type WithOptions,
} from "../../lib/overrides";
import { wireBytes } from "../../lib/planRow";
import { optionsOf } from "./optionsOf";
import { optionsSchema, PlanEditorOptions } from "./PlanEditorOptions";

interface Props {
  layer: PlanView["layers"][number];
  /** The columns. */
  choices: Choice[];
  axes: AxisEntry[];
  overrides: Override[];
  /** Whether the plan is of before the last change, or that was refused. */
  stale: boolean;
  errors: Errors;
  onChoice: (choice: Choice, value: Value) => void;
  onOptions: (choice: WithOptions, value: Value, options: Record<string, unknown>) => void;
  onForget: () => void;
}

/** In pixels, of the choices with long names. */
const WIDTHS: Partial<Record<Choice, number>> = { exchange: 150, depart: 126, returns: 116 };

/** One layer: what it does on every axis, to be changed; what that costs; what is wrong with it. */
export function PlanEditorRow(props: Props) {
  const { layer, choices, axes, overrides, stale, errors, onChoice, onOptions, onForget } = props;
  const [opened, setOpened] = useState<WithOptions | null>(null);
  const { row, plan } = layer;
  const own = byHand(overrides, only(row.layer));
  const name = layerTitle(row);
  const where =
    plan.placement === "replicated"
      ? ""
      : ` ${plan.placement === "device" ? "on" : "in"} ${plan.placement} ${plan.place}`;
  // What was chosen a moment ago is shown before the plan that follows from it has come.
  const value = (choice: Choice) => (stale ? pending(overrides, row, choice) : null) ?? chosen(plan, choice);
  const field = (choice: Choice) => {
    const current = value(choice);
    const wrong = errors.filter((error) => refusedChoice(error) === choice);
    const mine = own >= 0 && (overrides[own]?.[choice] ?? null) !== null;
    const common = {
      size: "xs" as const,
      "aria-label": `${humanize(choice)} of ${name}`,
      "data-testid": `choice-${row.layer}-${choice}`,
      error: wrong.length > 0,
      title: wrong.length > 0 ? wrong.map(sentence).join(" ") : String(current ?? ""),
      // Nothing of a layer that is computed in one place is exchanged.
      disabled: plan.placement === "device" && choice !== "activations",
    };
    if (choice === "size")
      return value("unit") === "layer" ? null : (
        <NumberInput
          {...common}
          w={90}
          min={1}
          hideControls
          value={current ?? ""}
          onChange={(entry) => onChoice(choice, typeof entry === "number" ? entry : null)}
        />
      );
    const options = optionsOf(choice, axes);
    const known = options.some((option) => option.value === current);
    const select = (
      <NativeSelect
        {...common}
        miw={WIDTHS[choice] ?? 92}
        data={known ? options : [{ value: String(current ?? ""), label: String(current ?? "") }, ...options]}
        value={String(current ?? "")}
        fw={mine ? 700 : undefined}
        onChange={(event) => onChoice(choice, event.currentTarget.value)}
        onKeyDown={(event: KeyboardEvent) => {
          if (event.key === "Delete" && mine) onChoice(choice, null);
        }}
      />
    );
    if (!hasOptions(choice) || !optionsSchema(choice, current, axes)) return select;
    return (
      <Group gap={2} wrap="nowrap">
        {select}
        <ActionIcon
          variant="subtle"
          color="gray"
          aria-label={`Options of ${current} of ${name}`}
          aria-expanded={opened === choice}
          data-testid={`options-${row.layer}-${choice}`}
          onClick={() => setOpened(opened === choice ? null : choice)}
        >
          <IconAdjustmentsHorizontal size={16} />
        </ActionIcon>
      </Group>
    );
  };
  const schema = opened && optionsSchema(opened, value(opened), axes);
  const undo = (event: MouseEvent<HTMLElement>) => {
    // The button goes, and the focus must not go with it.
    event.currentTarget.closest("tr")?.querySelector<HTMLElement>("select:not(:disabled)")?.focus();
    onForget();
  };
  return (
    <>
      <Table.Tr data-testid={`plan-editor-row-${row.layer}`} data-refused={errors.length > 0}>
        <Table.Td>
          {layerName(row)}{" "}
          <Text span size="xs" c="dimmed">
            {row.kind}
            {where}
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
        <Table.Td ta="right" className="ty-number" style={{ opacity: stale ? 0.5 : 1 }}>
          {wireBytes(row.wire_bytes, row.wire_exact)}
        </Table.Td>
        {choices.map((choice) => (
          <Table.Td key={choice}>
            {field(choice)}
            {choice === "activations" && row.activations_why && !stale && (
              <Text size="xs" c="dimmed" miw={240} data-testid={`why-${row.layer}`}>
                {row.activations_why}
              </Text>
            )}
          </Table.Td>
        ))}
        <Table.Td>
          {own >= 0 && (
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label={`Undo the changes of ${name}`}
              data-testid={`forget-${row.layer}`}
              onClick={undo}
            >
              <IconArrowBackUp size={16} />
            </ActionIcon>
          )}
        </Table.Td>
      </Table.Tr>
      {opened && schema && (
        <PlanEditorOptions
          choice={opened}
          value={value(opened)}
          schema={schema}
          options={chosenOptions(plan, opened, stale ? overrides[own] : undefined)}
          columns={choices.length + 4}
          errors={errors}
          onChange={(options) => onOptions(opened, value(opened), options)}
        />
      )}
      {errors.length > 0 && (
        <Table.Tr>
          <Table.Td colSpan={choices.length + 4}>
            <Text size="xs" c="red" data-testid={`refused-${row.layer}`}>
              {errors
                .map((error) => [refusedOption(error), sentence(error)].filter(Boolean).join(": "))
                .join(" ")}
            </Text>
          </Table.Td>
        </Table.Tr>
      )}
    </>
  );
}
