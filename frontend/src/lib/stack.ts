import type { PlotlyFigure } from "../api/types";
import { type Column, column } from "./typedColumn";

/** A panel of stacked areas, as `layout.meta.panels` says it (`backend/figures/utilization.py`). */
interface Panel {
  /** Its axes, as traces name them. */
  x: string;
  y: string;
  /** The link's key and the direction, as the API has them. */
  link: string;
  direction: "send" | "receive";
  /** Who sends or receives. */
  title: string;
  /** Null: not known. */
  rate_bps: number | null;
  /** Nothing but the job's word says so. */
  declared: boolean;
  /** The layers' parts are derived from their sizes. */
  by_size: boolean;
}

interface Area {
  name: string;
  /** The first and last one; -1: belongs to no layer. */
  layers: [number, number];
  /** bit/s in each bin. */
  values: Column;
}

/** A panel with what is stacked in it, from the bottom up. */
export interface Stack extends Panel {
  /** Where the first bin begins on the axis, and how long each is, in s. */
  start: number;
  step: number;
  areas: Area[];
}

/** What lies at a place of a panel. */
export interface Spot {
  stack: Stack;
  /** The bin's ends, in s. */
  from: number;
  to: number;
  /** Undefined: above everything that went in this bin. */
  area: { name: string; layers: [number, number]; bps: number; share: number | null } | undefined;
  /** Of everything in the bin: bit/s, and as a share of the rate. */
  bps: number;
  share: number | null;
}

interface Trace {
  name?: string;
  stackgroup?: string;
  x0?: number;
  dx?: number;
  y?: unknown;
  yaxis?: string;
  meta?: { layers?: [number, number] };
}

/** Whether it has panels of stacked areas: others have panels, too, and draw lines in them. */
export function isStacked(figure: PlotlyFigure): boolean {
  return (
    figure.layout.meta?.panels !== undefined &&
    (figure.data as Trace[]).some((trace) => trace.stackgroup !== undefined)
  );
}

/** The stacked panels of a figure; none where it has no such panels. */
export function stacksOf(figure: PlotlyFigure): Stack[] {
  const panels = isStacked(figure) ? (figure.layout.meta?.panels as Panel[]) : [];
  return panels.map((panel) => {
    const mine = (figure.data as Trace[]).filter(
      (trace) => trace.stackgroup !== undefined && (trace.yaxis ?? "y") === panel.y,
    );
    return {
      ...panel,
      start: mine[0]?.x0 ?? 0,
      step: mine[0]?.dx ?? 1,
      areas: mine.map((trace) => ({
        name: trace.name ?? "",
        layers: trace.meta?.layers ?? [-1, -1],
        values: column(trace.y),
      })),
    };
  });
}

/** What a panel has at `x` (s) and `y` (bit/s); undefined where nothing went at that time. */
export function spotIn(stack: Stack, x: number, y: number): Spot | undefined {
  const bin = Math.floor((x - stack.start) / stack.step + 1e-9);
  if (bin < 0 || y < 0) return undefined;
  const share = (bps: number) => (stack.rate_bps === null ? null : bps / stack.rate_bps);
  let bps = 0;
  let area: Spot["area"];
  for (const { name, layers, values } of stack.areas) {
    const own = bin < values.length - 1 ? values.at(bin) : 0; // the last value ends the bin before it
    if (area === undefined && own > 0 && y < bps + own) area = { name, layers, bps: own, share: share(own) };
    bps += own;
  }
  if (bps === 0) return undefined;
  const from = stack.start + bin * stack.step;
  return { stack, from, to: from + stack.step, area, bps, share: share(bps) };
}
