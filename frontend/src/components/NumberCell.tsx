import { Table } from "@mantine/core";
import type { ReactNode } from "react";
import { OrWhyNot } from "./OrWhyNot";

interface Props {
  label: string;
  /** Why there may be a dash. */
  none?: string;
  /** Where a row is a card, it takes half a line, not a quarter. */
  half?: boolean;
  children: ReactNode;
}

/** A number in a list of jobs: under its column's name where a row is a card. */
export function NumberCell({ label, none, half, children }: Props) {
  return (
    <Table.Td data-label={label} className={`ty-number ty-right${half ? " ty-half" : ""}`}>
      {none ? <OrWhyNot why={none}>{children}</OrWhyNot> : children}
    </Table.Td>
  );
}
