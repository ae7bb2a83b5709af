import { Table } from "@mantine/core";
import type { ReactNode } from "react";

/** A number in a list of jobs: under its column's name where a row is a card. */
export function NumberCell({ label, children }: { label: string; children: ReactNode }) {
  return (
    <Table.Td data-label={label} className="ty-number ty-right">
      {children}
    </Table.Td>
  );
}
