/** One column of the list of jobs. */
export interface JobColumn {
  label: string;
  /** What the service sorts by; the order in which most people want it at first: `-` for the largest first. */
  sort?: string;
  width: string | number;
  right?: boolean;
}

export const JOB_COLUMNS: JobColumn[] = [
  { label: "Name", sort: "name", width: "17%" },
  { label: "State", sort: "state", width: 106 },
  { label: "Strategy", sort: "strategy", width: "10%" },
  { label: "Model", sort: "model", width: "14%" },
  { label: "Workers", sort: "-workers", width: "7%", right: true },
  { label: "Progress", sort: "-step", width: "14%" },
  { label: "Loss", sort: "loss", width: "6%", right: true },
  { label: "Accuracy", sort: "-test_accuracy", width: "8%", right: true },
  { label: "Samples/s", sort: "-samples_per_s", width: "9%", right: true },
  { label: "Speed-up", sort: "-speed_up", width: "8%", right: true },
  { label: "Age", sort: "-created_at", width: "6%", right: true },
  { label: "Took", sort: "-duration", width: "6%", right: true },
];

const COLUMNS = new Set(JOB_COLUMNS.flatMap(({ sort }) => (sort ? [columnOf(sort)] : [])));

/** `loss` of `-loss`. */
export function columnOf(sort: string): string {
  return sort.startsWith("-") ? sort.slice(1) : sort;
}

/** Whether the list has such an order. */
export function isSort(sort: string): boolean {
  return COLUMNS.has(columnOf(sort));
}

/** What a click on a column's head makes of the present order: the column's own order, then the other way round, then
 * the newest first again. */
export function nextSort(present: string | undefined, first: string): string | undefined {
  const other = first.startsWith("-") ? first.slice(1) : `-${first}`;
  if (present === first) return other;
  return present === other ? undefined : first;
}

/** For assistive technology: how the list is sorted by a column. */
export function ariaSort(present: string | undefined, first: string): "ascending" | "descending" | undefined {
  if (present === undefined || columnOf(present) !== columnOf(first)) return undefined;
  return present.startsWith("-") ? "descending" : "ascending";
}
