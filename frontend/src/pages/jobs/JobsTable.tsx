import { Table } from "@mantine/core";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import type { JobSummary } from "../../api/types";
import { Space } from "../../components/Space";
import { JOB_COLUMNS } from "../../lib/jobColumns";
import { JobRow } from "./JobRow";
import { SortHead } from "./SortHead";

// Guesses, until a row is drawn and measured: names and badges may take several lines, and on a phone a row is a card.
const ROW_PX = 58;
const CARD_PX = 150;
const PHONE = "(max-width: 48em)";
const OVERSCAN = 8;
const COLUMNS = JOB_COLUMNS.length + 1;
// So many rows before the last one, the next page is asked for.
const AHEAD = 20;

interface Props {
  jobs: JobSummary[];
  selected: string[];
  onSelect: (ids: string[]) => void;
  /** A column, `-` for the largest first; none: the newest first. */
  sort: string | undefined;
  onSort: (sort: string | undefined) => void;
  /** The last rows come into view. */
  onEnd: () => void;
}

/** Jobs as rows; of thousands, only those near the screen are drawn. */
export function JobsTable({ jobs, selected, onSelect, sort, onSort, onEnd }: Props) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    const place = body.current?.getBoundingClientRect().top ?? 0;
    setTop(Math.round(place + window.scrollY));
  });
  const virtual = useWindowVirtualizer({
    count: jobs.length,
    estimateSize: () => (window.matchMedia(PHONE).matches ? CARD_PX : ROW_PX),
    overscan: OVERSCAN,
    scrollMargin: top,
    getItemKey: (index) => jobs[index]?.id ?? index,
  });
  const rows = virtual.getVirtualItems();
  const last = rows.at(-1)?.index ?? 0;
  useEffect(() => {
    if (last >= jobs.length - AHEAD) onEnd();
  }, [last, jobs.length, onEnd]);

  const toggle = (id: string) =>
    onSelect(selected.includes(id) ? selected.filter((other) => other !== id) : [...selected, id]);
  return (
    <Table
      className="ty-table ty-steady"
      layout="fixed"
      data-testid="jobs-table"
      highlightOnHover
      horizontalSpacing="xs"
      aria-rowcount={jobs.length + 1}
    >
      <Table.Thead>
        <Table.Tr aria-rowindex={1}>
          <Table.Th w={36} aria-label="Selected" />
          {JOB_COLUMNS.map((column) => (
            <SortHead key={column.label} column={column} sort={sort} onSort={onSort} />
          ))}
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody ref={body}>
        <Space columns={COLUMNS} height={(rows[0]?.start ?? top) - top} />
        {rows.map(({ index, key }) => {
          const job = jobs[index];
          return (
            job && (
              <JobRow
                key={key}
                ref={virtual.measureElement}
                index={index}
                job={job}
                selected={selected.includes(job.id)}
                onToggle={() => toggle(job.id)}
              />
            )
          );
        })}
        <Space columns={COLUMNS} height={virtual.getTotalSize() - ((rows.at(-1)?.end ?? top) - top)} />
      </Table.Tbody>
    </Table>
  );
}
