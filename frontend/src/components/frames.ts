import type { Frame } from "../lib/lit";
import type { PlotArea } from "./Measure";

interface Axis {
  _offset: number;
  _length: number;
  range: [number, number];
  l2p: (value: number) => number;
}

/** What plotly.js knows of a drawing that it has made. */
type Layout = { _size: { l: number; w: number } } & Record<string, unknown>;

interface Drawn {
  _fullLayout?: Layout;
}

/**
 * Draw a frame around rows of a chart, into `over`, which lies over it. Not as shapes of the drawing: for one that comes
 * or goes plotly.js calculates and draws all of it again, and of those that went it keeps numbers, which a later drag
 * stumbles over.
 */
export function frame(target: HTMLElement, over: HTMLElement, frames: Frame[]): void {
  const layout = (target as Drawn)._fullLayout;
  over.replaceChildren(...(layout ? frames.map((one) => boxOf(one, layout)) : []));
}

/** Where the first panel lies in a drawing, and what its axis shows. */
export function areaOf(target: HTMLElement): PlotArea | undefined {
  const layout = (target as Drawn)._fullLayout;
  const [x, y] = [layout?.xaxis as Axis | undefined, layout?.yaxis as Axis | undefined];
  if (!x || !y) return undefined;
  const [from, to] = x.range;
  return { left: x._offset, width: x._length, top: y._offset, height: y._length, from, to };
}

function boxOf({ axis, row }: Frame, layout: Layout): HTMLElement {
  const { _offset, l2p } = layout[`yaxis${axis.slice(1)}`] as Axis;
  const [one, other] = [l2p(row - 0.5), l2p(row + 0.5)];
  const box = document.createElement("div");
  box.dataset.row = String(row);
  box.style.left = `${layout._size.l}px`;
  box.style.width = `${layout._size.w}px`;
  box.style.top = `${_offset + Math.min(one, other)}px`;
  box.style.height = `${Math.abs(other - one)}px`;
  return box;
}
