import { Stack, Table, Text } from "@mantine/core";
import type { PlanView } from "../api/types";
import { formatBytes } from "../lib/format";
import { exchanged, wireHead } from "../lib/planRow";
import { PlanHead } from "./PlanHead";

interface Props {
  plan: PlanView;
  brief?: boolean;
  /** The layer that is lit up. */
  layer?: number;
  onLayer?: (layer: number) => void;
  /** A layer is pointed at; undefined: no longer. */
  onPointed?: (layer: number | undefined) => void;
}

/** A plan for people: one row per layer, its totals, and what one should know first. `brief` leaves columns out. */
export function PlanTable({ plan, brief = false, layer, onLayer, onPointed }: Props) {
  const rows = plan.layers.map(({ row, plan }) => ({ ...row, exchange: exchanged(plan) }));
  const largest = Math.max(1, ...rows.map((row) => row.wire_bytes));
  return (
    <Stack gap="sm">
      <PlanHead plan={plan} />
      {rows.length > 0 && (
        <Table.ScrollContainer minWidth={brief ? 420 : 980} maxHeight={brief ? 420 : undefined} type="native">
          <Table
            fz="xs"
            horizontalSpacing={brief ? 6 : "sm"}
            verticalSpacing={4}
            stickyHeader={brief}
            data-testid="plan-table"
          >
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Layer</Table.Th>
                <Table.Th ta="right">Parameters</Table.Th>
                <Table.Th>Exchange</Table.Th>
                {!brief && <Table.Th>Codec</Table.Th>}
                {!brief && <Table.Th>Order</Table.Th>}
                <Table.Th ta="right">Units</Table.Th>
                {!brief && <Table.Th>Travels</Table.Th>}
                {!brief && <Table.Th>Update</Table.Th>}
                {!brief && <Table.Th>Barrier</Table.Th>}
                <Table.Th ta="right">{wireHead(plan)}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {rows.map((row) => (
                <Table.Tr
                  key={row.position}
                  data-layer={row.position}
                  bg={row.position === layer ? "var(--mantine-primary-color-light)" : undefined}
                  aria-selected={onLayer && row.position === layer}
                  style={onLayer && { cursor: "pointer" }}
                  onClick={() => onLayer?.(row.position)}
                  onMouseEnter={() => onPointed?.(row.position)}
                  onMouseLeave={() => onPointed?.(undefined)}
                >
                  <Table.Td>
                    {row.layer || "(root)"}{" "}
                    <Text span size="xs" c="dimmed">
                      {row.kind}
                    </Text>
                  </Table.Td>
                  <Table.Td ta="right" className="ty-number">
                    {row.parameters.toLocaleString("en")}
                  </Table.Td>
                  <Table.Td className={brief ? undefined : "ty-number"}>{row.exchange}</Table.Td>
                  {!brief && <Table.Td>{row.codec}</Table.Td>}
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
                      background: `linear-gradient(270deg, var(--mantine-primary-color-light) ${(100 * row.wire_bytes) / largest}%, transparent 0)`,
                    }}
                  >
                    {formatBytes(row.wire_bytes)}
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Stack>
  );
}
