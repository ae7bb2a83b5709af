import type { TableTrProps } from "@mantine/core";
import type { KeyboardEvent } from "react";

interface Asked {
  /** The row's layer; undefined: it has none, or several, and cannot be chosen. */
  layer: number | undefined;
  lit: boolean;
  /** Of the rows that are drawn. */
  first: boolean;
  /** Undefined: rows cannot be chosen. */
  onLayer: ((layer: number) => void) | undefined;
  onPointed: ((layer: number | undefined) => void) | undefined;
}

/**
 * What the row of a layer does in a table of layers: who points at it, or comes by with the arrow keys, lights its layer
 * up; a click, Enter or the space bar keeps it. Tab stops at the first row and at the one that is lit up: a network
 * may have hundreds.
 */
export function layerRow({ layer, lit, first, onLayer, onPointed }: Asked): TableTrProps {
  const light = lit ? "var(--mantine-primary-color-light)" : undefined;
  const leave = () => onPointed?.(undefined);
  if (layer === undefined || onLayer === undefined)
    return { bg: light, onMouseEnter: leave, onMouseLeave: leave };
  const point = () => onPointed?.(layer);
  const choose = () => onLayer(layer);
  return {
    bg: light,
    tabIndex: lit || first ? 0 : -1,
    "aria-selected": lit,
    style: { cursor: "pointer" },
    onClick: choose,
    onMouseEnter: point,
    onMouseLeave: leave,
    onFocus: point,
    onBlur: leave,
    onKeyDown: (event) => pressed(event, choose),
  };
}

function pressed(event: KeyboardEvent<HTMLTableRowElement>, choose: () => void): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const row = event.currentTarget;
  const rows = Array.from(row.parentElement?.querySelectorAll<HTMLElement>("tr[tabindex]") ?? []);
  const at = rows.indexOf(row);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
  if (to !== undefined) rows[to]?.focus();
  else if (event.key === "Enter" || event.key === " ") choose();
  else return;
  event.preventDefault();
}
