import type { PlotlyFigure } from "../api/types";
import { column } from "./typedColumn";

/**
 * Ends of axes, by what they are of: an axis's name in a layout; "length of <axis>" where a figure says which stretch
 * across it shows (from 0, each keeps its own beginning); "colour <n>", the colours of the n-th heat map.
 */
export type Scale = Record<string, [number, number]>;

interface Axis {
  range?: unknown;
  autorange?: unknown;
  type?: string;
  tickmode?: string;
  rangemode?: string;
  matches?: string;
  visible?: boolean;
}

interface Trace {
  type?: string;
  orientation?: string;
  x?: unknown;
  y?: unknown;
  base?: unknown;
  xaxis?: string;
  yaxis?: string;
  stackgroup?: string;
  zmin?: number;
  zmax?: number;
  fillcolor?: string;
  // Of the filled cells of a heat map's values, a trace for each colour: the number of theirs.
  meta?: { level?: number };
}

const AXIS = /^[xy]axis\d*$/;
const LENGTH = "length of ";
// What an axis leaves free above its largest value.
const HEADROOM = 0.05;

/**
 * What a figure shows: the ends that it gives its axes, and where it leaves them to plotly.js, how far its lines and
 * bars reach. Axes of names, and those that run downwards, have none.
 */
export function scaleOf(figure: PlotlyFigure): Scale {
  const scale: Scale = {};
  const traces = figure.data as Trace[];
  const stacked = figure.layout.barmode === "stack";
  for (const letter of ["x", "y"] as const) {
    const leaderOf = (trace: Trace) => leader(figure.layout, axisOf(trace, letter));
    const own = Object.keys(figure.layout).filter((key) => AXIS.test(key) && key.startsWith(letter));
    for (const name of new Set([...own.map((key) => leader(figure.layout, key)), ...traces.map(leaderOf)])) {
      const axis = (figure.layout[name] ?? {}) as Axis;
      const given = rangeOf(axis);
      if (given && letter === "x") scale[LENGTH + name] = [0, given[1] - given[0]];
      const mine = traces.filter((trace) => leaderOf(trace) === name);
      const ends = given ? letter === "y" && given : endsOf(axis, letter, mine, stacked);
      if (ends) scale[name] = ends;
    }
  }
  traces
    .filter((trace) => trace.type === "heatmap")
    .forEach(({ zmin, zmax }, index) => {
      if (typeof zmin === "number" && typeof zmax === "number") scale[`colour ${index}`] = [zmin, zmax];
    });
  return scale;
}

/** The scale on which all of them fit. */
export function joined(scales: Scale[]): Scale {
  const all: Scale = {};
  for (const [name, [low, high]] of scales.flatMap(Object.entries) as [string, [number, number]][]) {
    const [least, most] = all[name] ?? [low, high];
    all[name] = [Math.min(least, low), Math.max(most, high)];
  }
  return all;
}

/** The figure on `scale`, as far as it has such axes. */
export function onScale(figure: PlotlyFigure, scale: Scale): PlotlyFigure {
  const layout = { ...figure.layout };
  const show = (name: string, range: unknown) => {
    for (const key of new Set([name, ...Object.keys(layout).filter((axis) => AXIS.test(axis))]))
      if (leader(figure.layout, key) === name)
        layout[key] = { ...(layout[key] as Axis), range, autorange: false };
  };
  for (const name of Object.keys(scaleOf(figure))) {
    const ends = scale[name];
    const across = name.startsWith(LENGTH) ? name.slice(LENGTH.length) : undefined;
    const start = across === undefined ? undefined : rangeOf(figure.layout[across] as Axis)?.[0];
    if (ends && across !== undefined && start !== undefined) show(across, [start, start + ends[1]]);
    else if (ends && AXIS.test(name)) show(name, ends);
  }
  let heatmaps = 0;
  let share = 1;
  const traces = figure.data as Trace[];
  const data = traces.map((trace, index) => {
    const level = trace.meta?.level;
    // A map's cells follow it, from the first colour to the last.
    if (level !== undefined)
      return { ...trace, fillcolor: traces[index - level + Math.round(share * level)]?.fillcolor };
    if (trace.type !== "heatmap") return trace;
    const colours = scale[`colour ${heatmaps++}`];
    share = colours && trace.zmax !== undefined ? trace.zmax / colours[1] : 1;
    return colours && trace.zmax !== undefined ? { ...trace, zmin: colours[0], zmax: colours[1] } : trace;
  });
  return { ...figure, data, layout };
}

function axisOf(trace: Trace, letter: "x" | "y"): string {
  return (trace[`${letter}axis`] ?? letter).replace(letter, `${letter}axis`);
}

/** The axis that this one always shows the same as; itself where there is none. */
function leader(layout: Record<string, unknown>, name: string): string {
  const matches = (layout[name] as Axis | undefined)?.matches;
  return matches ? matches.replace(/^[xy]/, "$&axis") : name;
}

/** The ends that a figure gives an axis; undefined where it gives none, or runs downwards. */
function rangeOf(axis: Axis): [number, number] | undefined {
  const [low, high] = Array.isArray(axis.range) ? axis.range : [];
  return typeof low === "number" && typeof high === "number" && high > low ? [low, high] : undefined;
}

/** How far lines and bars reach on an axis without ends of its own; undefined where it is one of names. */
function endsOf(
  axis: Axis,
  letter: "x" | "y",
  traces: Trace[],
  stacked: boolean,
): [number, number] | undefined {
  const names = axis.type === "category" || axis.tickmode === "array" || axis.autorange === "reversed";
  if (names || axis.visible === false || axis.range !== undefined) return undefined;
  const isBar = (trace: Trace) => trace.type === "bar" && (trace.orientation === "h") === (letter === "x");
  const isPiled = (trace: Trace) => letter === "y" && trace.stackgroup !== undefined;
  const bars = traces.filter(isBar);
  if (bars.some((trace) => trace.base !== undefined)) return undefined;
  const values = [
    ...traces
      .filter((trace) => !isBar(trace) && !isPiled(trace))
      .flatMap((trace) => numbersOf(trace[letter])),
    ...lengths(traces.filter(isPiled), "y", true),
    ...lengths(bars, letter, stacked),
  ];
  if (values.length === 0) return undefined;
  const zero = axis.rangemode === "tozero" || bars.length > 0 ? [0] : [];
  const low = [...zero, ...values].reduce((least, value) => Math.min(least, value));
  const high = [...zero, ...values].reduce((most, value) => Math.max(most, value));
  if (high <= low) return undefined;
  // Across, lines reach from edge to edge; upwards, and behind a bar's end, there is room.
  const free = letter === "y" || bars.length > 0 ? HEADROOM * (high - low) : 0;
  return [zero.length > 0 && low === 0 ? 0 : low - free, high + free];
}

/** How far bars reach: stacked ones together, at each place of the other axis. */
function lengths(bars: Trace[], letter: "x" | "y", stacked: boolean): number[] {
  const other = letter === "x" ? "y" : "x";
  const sums = new Map<string, number>();
  bars.forEach((bar, index) => {
    const places = placesOf(bar[other]);
    numbersOf(bar[letter], true).forEach((value, row) => {
      const place = `${stacked ? "" : index} ${places?.[row] ?? row}`;
      sums.set(place, (sums.get(place) ?? 0) + (Number.isFinite(value) ? value : 0));
    });
  });
  return [...sums.values()];
}

function placesOf(values: unknown): unknown[] | undefined {
  return Array.isArray(values) ? values : undefined;
}

/** A column's numbers; none where it holds names. `all`: also those that are no numbers, in their places. */
function numbersOf(values: unknown, all = false): number[] {
  if (values === undefined || values === null) return [];
  if (Array.isArray(values) && values.some((value) => typeof value === "string")) return [];
  const read = column(values);
  const found = Array.from({ length: read.length }, (_, row) => read.at(row));
  return all ? found : found.filter(Number.isFinite);
}
