import { Table, UnstyledButton } from "@mantine/core";
import { IconArrowDown, IconArrowUp } from "@tabler/icons-react";
import { ariaSort, columnOf, type JobColumn, nextSort } from "../../lib/jobColumns";

interface Props {
  column: JobColumn;
  sort: string | undefined;
  onSort: (sort: string | undefined) => void;
}

/** A column's head: a click sorts by it, the next one the other way round, the third not any more. */
export function SortHead({ column: { label, sort: first, width, right }, sort, onSort }: Props) {
  const className = right ? "ty-right" : undefined;
  if (first === undefined) {
    return (
      <Table.Th w={width} className={className}>
        {label}
      </Table.Th>
    );
  }
  const sorted = ariaSort(sort, first);
  const Arrow = sorted === "descending" ? IconArrowDown : IconArrowUp;
  return (
    <Table.Th w={width} className={className} aria-sort={sorted}>
      <UnstyledButton
        fz="inherit"
        fw="inherit"
        c={sorted ? "inherit" : undefined}
        title={`Sort by ${label.toLowerCase()}`}
        data-testid={`sort-${columnOf(first)}`}
        onClick={() => onSort(nextSort(sort, first))}
      >
        {label}
        {sorted && <Arrow size={12} aria-hidden style={{ verticalAlign: "-1px", marginLeft: 2 }} />}
      </UnstyledButton>
    </Table.Th>
  );
}
