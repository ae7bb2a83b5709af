import { Table } from "@mantine/core";

/** Where rows of a table would be that are not drawn. */
export function Space({ height, columns }: { height: number; columns: number }) {
  if (height <= 0) return null;
  return (
    <Table.Tr className="ty-space" aria-hidden>
      <Table.Td colSpan={columns} style={{ height }} />
    </Table.Tr>
  );
}
