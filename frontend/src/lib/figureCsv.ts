import type { PlotlyFigure } from "../api/types";
import { type Cell, csvOf } from "./csv";
import { column } from "./typedColumn";

interface Axis {
  title?: { text?: string };
  ticksuffix?: string;
  tickformat?: string;
  tickvals?: unknown;
  ticktext?: string[];
  matches?: string;
}

interface Trace {
  type?: string;
  name?: string;
  orientation?: string;
  fill?: string;
  stackgroup?: string;
  hoverinfo?: string;
  hovertext?: string[];
  xaxis?: string;
  yaxis?: string;
  x?: unknown;
  y?: unknown;
  z?: unknown;
  x0?: number;
  dx?: number;
  base?: unknown;
  /** `key`, `keys`: what files call the trace, or its rows, where people read another name. */
  meta?: { code?: number; key?: string; keys?: string[] };
  error_y?: { symmetric?: boolean; array?: unknown; arrayminus?: unknown };
  colorbar?: { tickformat?: string; ticksuffix?: string };
}

type Value = string | number;
type Rows = Cell[][];

/**
 * A figure's data as CSV: columns with their units in the header. Lines that share an axis are beside one another, a
 * column each; bars, and what a map or a timeline holds, have a row each. Blocks of different columns are parted by an
 * empty line.
 */
export function figureCsv(figure: PlotlyFigure): string {
  const { layout } = figure;
  const traces = (figure.data as Trace[]).filter(isData);
  const bars = traces.filter(({ type }) => type === "bar");
  const blocks = [
    ...lines(
      traces.filter((trace) => !["bar", "heatmap"].includes(trace.type ?? "") && trace.fill !== "toself"),
      layout,
    ),
    spans(
      bars.filter(({ base }) => base !== undefined),
      traces.filter(({ fill, meta }) => fill === "toself" && meta?.code !== undefined),
      layout,
    ),
    lengths(
      bars.filter(({ base }) => base === undefined),
      layout,
    ),
    cells(
      traces.filter(({ type }) => type === "heatmap"),
      layout,
    ),
  ].filter((rows) => rows.length > 1);
  return csvOf(blocks.flatMap((rows, index) => (index === 0 ? rows : [[], ...rows])));
}

/** Entries of the key, rules and outlines that repeat others hold nothing. */
function isData(trace: Trace): boolean {
  if (trace.stackgroup !== undefined || trace.meta?.code !== undefined) return true;
  if (trace.hoverinfo === "skip" || (trace.fill === "toself" && trace.type !== "bar")) return false;
  return valuesOf(trace.y ?? trace.z).length > 0 && valuesOf(trace.x).some((value) => value !== "");
}

/** A block for each axis: its values, and a column for each line over it. */
function lines(traces: Trace[], layout: PlotlyFigure["layout"]): Rows[] {
  const groups = new Map<string, Trace[]>();
  for (const trace of traces.flatMap(withEnds)) {
    const axis = leader(layout, trace.xaxis ?? "x");
    groups.set(axis, [...(groups.get(axis) ?? []), trace]);
  }
  return Array.from(groups, ([axis, group]) => {
    const rows = new Map<Value, Cell[]>();
    group.forEach((trace, place) => {
      const stacked = trace.stackgroup !== undefined;
      const values = valuesOf(trace.y).slice(0, stacked ? -1 : undefined); // of a stack the last ends the bin before
      const x = trace.x === undefined ? undefined : valuesOf(trace.x);
      values.forEach((value, index) => {
        const at = x ? (x[index] ?? "") : Number(((trace.x0 ?? 0) + index * (trace.dx ?? 1)).toFixed(9));
        const row = rows.get(at) ?? Array<Cell>(group.length).fill(undefined);
        row[place] = value;
        rows.set(at, row);
      });
    });
    const sorted = [...rows].sort(([one], [other]) => (Number(one) < Number(other) ? -1 : 1));
    const head = [
      headOf(layout, axis, "x"),
      ...group.map((trace) =>
        withUnit(`${panelOf(layout, trace)}${plain(trace.meta?.key ?? trace.name)}`, unitOf(layout, trace)),
      ),
    ];
    return [head, ...sorted.map(([at, row]) => [at, ...row])];
  });
}

/** A line, and the ends of its bars beside it, where it has such: as far below and above as they reach. */
function withEnds(trace: Trace): Trace[] {
  if (trace.error_y?.symmetric !== false) return [trace];
  const [y, down, up] = [trace.y, trace.error_y.arrayminus, trace.error_y.array].map(valuesOf);
  const end = (side: string, reach: Value[] = [], sign: 1 | -1 = 1): Trace => ({
    ...trace,
    name: `${trace.name}, ${side}`,
    y: y?.map((value, place) => (reach[place] !== "" ? Number(value) + sign * Number(reach[place]) : null)),
  });
  return [trace, end("from", down, -1), end("to", up)];
}

/** What was going on from when to when: bars that begin somewhere, and outlines of such. */
function spans(bars: Trace[], outlines: Trace[], layout: PlotlyFigure["layout"]): Rows {
  const first = bars[0] ?? outlines[0];
  const unit = first ? (axisOf(layout, first.xaxis ?? "x").ticksuffix ?? "").trim() : "";
  const named = rowNames(layout, first?.yaxis ?? "y");
  const rows: Rows = bars.flatMap((trace) => {
    const [base, x, y] = [valuesOf(trace.base), valuesOf(trace.x), valuesOf(trace.y)];
    return base.map((from, index) => [
      plain(trace.name),
      named(y[index]),
      from,
      Number(from) + Number(x[index]),
      plain(trace.hovertext?.[index]),
    ]);
  });
  for (const trace of outlines) {
    const [x, y] = [valuesOf(trace.x), valuesOf(trace.y)];
    for (let at = 0; at + 3 < x.length; at += 5)
      rows.push([plain(trace.name), named((Number(y[at]) + Number(y[at + 2])) / 2), x[at], x[at + 1], ""]);
  }
  rows.sort((one, other) => Number(one[2]) - Number(other[2]));
  return [["series", "row", `from (${unit})`, `to (${unit})`, "what"], ...rows];
}

/** Bars from zero on, beside the names that they stand at. */
function lengths(bars: Trace[], layout: PlotlyFigure["layout"]): Rows {
  const [first] = bars;
  if (!first) return [];
  const across = first.orientation === "h";
  const names = new Map<Value, Cell[]>();
  bars.forEach((trace, place) => {
    const values = valuesOf(across ? trace.x : trace.y);
    valuesOf(across ? trace.y : trace.x).forEach((name, index) => {
      const row = names.get(name) ?? Array<Cell>(bars.length).fill(undefined);
      row[place] = values[index];
      names.set(name, row);
    });
  });
  const axis = across ? (first.xaxis ?? "x") : (first.yaxis ?? "y");
  const unit = plain(layout.meta?.unit as string | undefined) || headOf(layout, axis, "value");
  const head = ["name", ...bars.map((trace) => withUnit(plain(trace.name), unit))];
  return [head, ...Array.from(names, ([name, row]) => [plain(String(name)), ...row])];
}

/** A map's cells that hold something. */
function cells(maps: Trace[], layout: PlotlyFigure["layout"]): Rows {
  const rows = maps.flatMap((trace) => {
    const [x, z] = [valuesOf(trace.x), column(trace.z ?? [])];
    const names = trace.meta?.keys ?? (Array.isArray(trace.y) ? (trace.y as Value[]) : valuesOf(trace.y));
    const named = rowNames(layout, trace.yaxis ?? "y");
    const unit = trace.colorbar?.ticksuffix || (trace.colorbar?.tickformat?.endsWith("%") ? "share" : "");
    const found: Rows = [];
    for (let row = 0; row < names.length; row += 1)
      for (let at = 0; at + 1 < x.length; at += 1) {
        const value = z.at(row, at);
        const name = names[row];
        if (Number.isFinite(value) && value !== 0)
          found.push([typeof name === "number" ? named(name) : plain(name), x[at], x[at + 1], value, unit]);
      }
    return found;
  });
  return [["row", "from (s)", "to (s)", "value", "unit"], ...rows];
}

/** A column's numbers or names; what is no number is empty. */
function valuesOf(values: unknown): Value[] {
  if (values === undefined || values === null) return [];
  if (Array.isArray(values) && values.some((value) => typeof value === "string")) return values as Value[];
  const read = column(values);
  return Array.from({ length: read.length }, (_, row) => {
    const value = Array.isArray(values) && values[row] === null ? Number.NaN : read.at(row);
    return Number.isFinite(value) ? value : "";
  });
}

function axisOf(layout: PlotlyFigure["layout"], name: string): Axis {
  return (layout[name.replace(/^[xy]/, "$&axis")] as Axis | undefined) ?? {};
}

/** The axis that this one always shows the same as; itself where there is none. */
function leader(layout: PlotlyFigure["layout"], name: string): string {
  return axisOf(layout, name).matches ?? name;
}

/** `step`, `iteration (ms)`, `time (s)`: an axis in a header. */
function headOf(layout: PlotlyFigure["layout"], name: string, otherwise: string): string {
  const axes = Object.keys(layout)
    .filter((key) => /^[xy]axis\d*$/.test(key))
    .map((key) => key.replace("axis", ""))
    .filter((key) => leader(layout, key) === name);
  const own = axisOf(layout, name);
  const { title, ticksuffix, tickformat } =
    [own, ...axes.map((key) => axisOf(layout, key))].find((axis) => axis.title?.text) ?? own;
  const unit = ticksuffix?.trim() || (tickformat?.endsWith("%") ? "share" : "");
  const text = plain(title?.text) || (unit === "s" ? "time" : otherwise);
  return unit && !saysUnit(text, unit) ? withUnit(text, unit) : text;
}

/** Whether words of an axis, as `share of the contributions`, begin with its unit. */
function saysUnit(text: string, unit: string): boolean {
  return text === unit || text.startsWith(`${unit} `);
}

/** `loss (share)`; what has brackets of its own follows on a comma: `loss, training loss (smoothed)`. */
function withUnit(name: string, unit: string): string {
  return unit.includes("(") || name.endsWith(")") ? `${name}, ${unit}` : `${name} (${unit})`;
}

function unitOf(layout: PlotlyFigure["layout"], trace: Trace): string {
  if (trace.stackgroup !== undefined) return "bit/s";
  const name = trace.yaxis ?? "y";
  const { title, ticksuffix, tickformat } = axisOf(layout, name);
  const unit = ticksuffix?.trim() || (tickformat?.endsWith("%") ? "share" : "");
  const text = plain(title?.text);
  return [text, saysUnit(text, unit) ? "" : unit].filter(Boolean).join(", ") || "value";
}

/** Whose panel a line is in, where the figure says it. */
function panelOf({ meta }: PlotlyFigure["layout"], trace: Trace): string {
  const panels = (meta?.panels ?? []) as { y: string; title: string }[];
  const panel = panels.find(({ y }) => y === (trace.yaxis ?? "y"));
  return panel ? `${panel.title}: ` : "";
}

/** What stands beside a row of a timeline, by the height in which something is. A party's name is said with its first. */
function rowNames(layout: PlotlyFigure["layout"], name: string): (y: Value | undefined) => string {
  const { tickvals, ticktext = [] } = axisOf(layout, name);
  const places = valuesOf(tickvals).map(Number);
  let party = "";
  const names = ticktext.map((text) => {
    const bold = /<b>(.*?)<\/b>/.exec(text)?.[1];
    party = bold ?? party;
    return plain(bold ? text : `${party} ${text}`);
  });
  return (y) => {
    const distances = places.map((place) => Math.abs(place - Number(y)));
    return names[distances.indexOf(Math.min(...distances))] ?? String(y ?? "");
  };
}

// What the service writes for the signs of markup in names (`backend/figures/markup.py`).
const SIGNS: Record<string, string> = { "&lt;": "<", "&gt;": ">", "&#37;": "%", "&amp;": "&" };

/** Without markup; lines in one. */
function plain(text: string | number | undefined): string {
  return String(text ?? "")
    .replace(/<br>/g, ", ")
    .replace(/<[^>]+>/g, "")
    .replace(/&(?:lt|gt|#37|amp);/g, (sign) => SIGNS[sign] ?? sign)
    .trim();
}
