import { Table } from "@mantine/core";
import type { ReactNode } from "react";
import { OrWhyNot } from "./OrWhyNot";

interface Props {
  label: string;
  /** Why there may be a dash. */
  none?: string;
  children: ReactNode;
}

/** A number in a list of jobs: under its column's name where a row is a card. */
export function NumberCell({ label, none, children }: Props) {
  return (
    <Table.Td data-label={label} className="ty-number ty-right">
      {none ? <OrWhyNot why={none}>{children}</OrWhyNot> : children}
    </Table.Td>
  );
}
