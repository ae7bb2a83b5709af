import { Table } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import type { ReactNode, Ref } from "react";
import { Space } from "./Space";

// Of rows above and below what is to be seen.
const OVERSCAN = 12;

interface Props {
  count: number;
  columns: number;
  /** A row's height before it is drawn and measured. */
  guessPx: number;
  /** Null until it is there. */
  scroller: HTMLElement | null;
  /** The row with this index, with `data-index` and this ref; `first` of those that are drawn. */
  draw: (index: number, ref: Ref<HTMLTableRowElement>, first: boolean) => ReactNode;
}

/** The rows of a table that scrolls in a box of its own: of thousands, only those near what is to be seen. */
export function NearRows({ count, columns, guessPx, scroller, draw }: Props) {
  const virtual = useVirtualizer({
    count,
    getScrollElement: () => scroller,
    estimateSize: () => guessPx,
    overscan: OVERSCAN,
  });
  const rows = virtual.getVirtualItems();
  return (
    <Table.Tbody>
      <Space columns={columns} height={rows[0]?.start ?? 0} />
      {rows.map(({ index }, place) => draw(index, virtual.measureElement, place === 0))}
      <Space columns={columns} height={virtual.getTotalSize() - (rows.at(-1)?.end ?? 0)} />
    </Table.Tbody>
  );
}
