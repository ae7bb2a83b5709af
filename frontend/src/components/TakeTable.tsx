import { Box, Button } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { type ReactNode, useRef } from "react";
import { type Cell, csvOf, download, fileName, rowsOf } from "../lib/csv";

interface Props {
  /** The file's name. */
  file: string;
  /** In place of what the table shows: of a long one only the rows that are near are drawn. */
  rows?: () => Cell[][];
  /** What the button says, where the file holds less than one might think. */
  label?: string;
  children: ReactNode;
}

/** A table of the page, and a button that takes the rows which it shows along as CSV. */
export function TakeTable({ file, rows, label, children }: Props) {
  const around = useRef<HTMLDivElement>(null);
  const take = () => {
    const table = around.current?.querySelector("table");
    if (table) download(csvOf(rows?.() ?? rowsOf(table)), fileName(file, "csv"), "text/csv");
  };
  return (
    <Box ref={around}>
      {children}
      <Button
        mt={4}
        size="compact-xs"
        variant="subtle"
        leftSection={<IconDownload size={13} />}
        aria-label={label ?? `CSV of ${file}`}
        onClick={take}
        data-testid="table-csv"
      >
        {label ?? "CSV"}
      </Button>
    </Box>
  );
}
