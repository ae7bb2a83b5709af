import type { KeyboardEvent } from "react";

const STEPS: Record<string, [number, number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};
const FIELDS = "select:not(:disabled), input:not(:disabled), button";

/**
 * Ctrl (or ⌘) with an arrow moves the focus to the next cell of a table that has a field. Without it, arrows are the
 * field's own; for the capture phase, so that it does not see them with it.
 */
export function moveBetweenCells(event: KeyboardEvent<HTMLElement>) {
  const step = STEPS[event.key];
  const from = event.target instanceof HTMLElement ? event.target.closest("td") : null;
  const line = from?.parentElement;
  if (!step || !(event.ctrlKey || event.metaKey) || !from || !(line instanceof HTMLTableRowElement)) return;
  event.preventDefault();
  event.stopPropagation();
  const lines = [...(line.parentElement?.children ?? [])] as HTMLTableRowElement[];
  const [down, right] = step;
  let [row, column] = [lines.indexOf(line), from.cellIndex];
  let field: HTMLElement | null | undefined = null;
  while (!field && lines[row]?.cells.length) {
    row += down;
    column += right;
    // A refusal's line has one cell; a layer's cell may have no field.
    const cell = lines[row]?.cells[column];
    if (column < 0 || (right !== 0 && !cell)) return;
    field = cell?.querySelector<HTMLElement>(FIELDS);
  }
  field?.focus();
}
