import { Stack, Table, Text } from "@mantine/core";
import { memo, type Ref, useMemo, useState } from "react";
import type { PlanView } from "../api/types";
import { layerName } from "../lib/layerTitle";
import { activationsOf, exchanged, movesActivations, unitsHead, wireBytes, wireHead } from "../lib/planRow";
import { layerRow } from "./layerRow";
import { NearRows } from "./NearRows";
import { PlanHead } from "./PlanHead";
import { Tip } from "./Tip";

// Of the brief table: with more rows than that it draws only what is near.
const MANY = 60;
const COLUMNS = 5;
const ROW_PX = 27;

interface Props {
  plan: PlanView;
  brief?: boolean;
  /** The layer that is lit up. */
  layer?: number;
  /** Stable, as the next one: rows that stay as they are are not drawn again. */
  onLayer?: (layer: number) => void;
  /** A layer is pointed at; undefined: no longer. */
  onPointed?: (layer: number | undefined) => void;
}

/**
 * A plan for people: one row per layer, its totals, and what one should know first. `brief` leaves columns out and
 * scrolls in a box of its own, which draws what is near where rows are many: it stands beside figures that change all
 * the while.
 */
export function PlanTable({ plan, brief = false, layer, onLayer, onPointed }: Props) {
  const [scroller, setScroller] = useState<HTMLElement | null>(null);
  const rows = useMemo(() => plan.layers.map(rowOf), [plan.layers]);
  const moved = movesActivations(plan);
  const largest = Math.max(1, ...rows.map((row) => row.wire_bytes));
  const draw = (row: Row, first: boolean, ref?: Ref<HTMLTableRowElement>, index?: number) => (
    <PlanRow
      key={row.position}
      ref={ref}
      index={index}
      row={row}
      share={row.wire_bytes / largest}
      brief={brief}
      moved={moved}
      lit={row.position === layer}
      first={first}
      onLayer={onLayer}
      onPointed={onPointed}
    />
  );
  return (
    <Stack gap="sm">
      <PlanHead plan={plan} />
      {rows.length > 0 && (
        <Table.ScrollContainer
          ref={setScroller}
          minWidth={brief ? 420 : 980}
          maxHeight={brief ? 420 : undefined}
          type="native"
          className={brief ? "ty-layers" : undefined}
        >
          <Table
            fz="xs"
            horizontalSpacing={brief ? 6 : "sm"}
            verticalSpacing={4}
            stickyHeader={brief}
            data-testid="plan-table"
            aria-rowcount={rows.length + 1}
            role={onLayer && "grid"}
          >
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Layer</Table.Th>
                <Table.Th ta="right">Parameters</Table.Th>
                <Table.Th>Exchange</Table.Th>
                {!brief && <Table.Th>Codec</Table.Th>}
                {moved && <Table.Th>Activations</Table.Th>}
                {!brief && <Table.Th>Order</Table.Th>}
                <Table.Th ta="right">
                  <Units plan={plan} />
                </Table.Th>
                {!brief && <Table.Th>Travels</Table.Th>}
                {!brief && <Table.Th>Update</Table.Th>}
                {!brief && <Table.Th>Barrier</Table.Th>}
                <Table.Th ta="right">{wireHead(plan)}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            {brief && rows.length > MANY ? (
              <NearRows
                count={rows.length}
                columns={COLUMNS + (moved ? 1 : 0)}
                guessPx={ROW_PX}
                scroller={scroller}
                draw={(index, ref, first) => {
                  const row = rows[index];
                  return row && draw(row, first, ref, index);
                }}
              />
            ) : (
              <Table.Tbody>{rows.map((row, place) => draw(row, place === 0))}</Table.Tbody>
            )}
          </Table>
        </Table.ScrollContainer>
      )}
    </Stack>
  );
}

/** The head over units: of a plan with buckets their sum is more than the plan's number of units. */
function Units({ plan }: { plan: PlanView }) {
  const head = unitsHead(plan);
  if (head === "Units") return head;
  return (
    <Tip label={`Units that several layers share count once for each: there are ${plan.units} in all.`}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: its explanation must be within reach of the keyboard, too */}
      <span className="ty-term" tabIndex={0} data-testid="units-shared">
        {head}
      </span>
    </Tip>
  );
}

const rowOf = ({ row, plan }: PlanView["layers"][number]) => ({ ...row, exchange: exchanged(plan) });
type Row = ReturnType<typeof rowOf>;

interface RowProps {
  ref?: Ref<HTMLTableRowElement>;
  /** Its place among all rows, where not all are drawn. */
  index?: number;
  row: Row;
  /** Of the largest row's bytes. */
  share: number;
  brief: boolean;
  /** Whether there is a column of activations. */
  moved: boolean;
  lit: boolean;
  /** Of the rows that are drawn. */
  first: boolean;
  onLayer?: (layer: number) => void;
  onPointed?: (layer: number | undefined) => void;
}

const PlanRow = memo(function PlanRow({
  ref,
  index,
  row,
  share,
  brief,
  moved,
  lit,
  first,
  onLayer,
  onPointed,
}: RowProps) {
  return (
    <Table.Tr
      ref={ref}
      data-index={index}
      aria-rowindex={index === undefined ? undefined : index + 2}
      data-layer={row.position}
      {...layerRow({ layer: row.position, lit, first, onLayer, onPointed })}
    >
      <Table.Td>
        {layerName(row)}{" "}
        <Text span size="xs" c="dimmed">
          {row.kind}
        </Text>
      </Table.Td>
      <Table.Td ta="right" className="ty-number">
        {row.parameters.toLocaleString("en")}
      </Table.Td>
      <Table.Td className={brief ? undefined : "ty-number"}>{row.exchange}</Table.Td>
      {!brief && <Table.Td>{row.codec}</Table.Td>}
      {moved && (
        <Table.Td>
          {activationsOf(row)}
          {row.activations_why && !brief && (
            <Text size="xs" c="dimmed" data-testid="activations-why">
              {row.activations_why}
            </Text>
          )}
        </Table.Td>
      )}
      {!brief && <Table.Td>{row.order}</Table.Td>}
      <Table.Td ta="right" className="ty-number">
        {row.units}
      </Table.Td>
      {!brief && (
        <Table.Td className="ty-number">
          {row.payload} → {row.answer}
        </Table.Td>
      )}
      {!brief && <Table.Td>{row.update}</Table.Td>}
      {!brief && <Table.Td>{row.barrier}</Table.Td>}
      <Table.Td
        ta="right"
        className="ty-number"
        style={{
          background: `linear-gradient(270deg, var(--mantine-primary-color-light) ${100 * share}%, transparent 0)`,
        }}
      >
        {wireBytes(row.wire_bytes, row.wire_exact)}
      </Table.Td>
    </Table.Tr>
  );
});
