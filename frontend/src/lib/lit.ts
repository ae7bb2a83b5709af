import type { PlotlyFigure } from "../api/types";
import { column } from "./typedColumn";

// How figures say which layer a drawing is of:
//   trace.meta.layers  [first, last]: all of the trace is of these layers
//   trace.meta.code    it has the colour of layers with this code in layout.meta.codes
//   trace.meta.rows    a heat map whose rows are layers: the first one of each row, and where the last row ends
//   customdata[3]      of a bar
interface Meta {
  layers?: [number, number];
  code?: number;
  rows?: number[];
}

interface Trace {
  type?: string;
  fillcolor?: string;
  yaxis?: string;
  meta?: Meta;
  customdata?: unknown;
}

const DIM = 0.15;
const DIM_HEX = "2b";
const LAYER_COLUMN = 3;

/** What to change in a drawing so that a layer stands out, by trace number; and the frames around its rows. */
export interface Light {
  /** New colours of filled traces (stacked areas have no opacity of their own). */
  fill: Map<number, string>;
  /** New opacity of each bar. */
  bars: Map<number, Float32Array>;
  /** Each map's row of the layer; none where no layer is lit up. */
  frames: Frame[];
}

/** A row that is framed, and the axis on which it has its number. */
export interface Frame {
  axis: string;
  row: number;
}

/** How `figure` has to be drawn with `layer` lit up; undefined: as it is. */
export function lightOf(figure: PlotlyFigure, layer: number | undefined): Light {
  const light: Light = { fill: new Map(), bars: new Map(), frames: [] };
  const codes = (figure.layout.meta?.codes as number[] | undefined) ?? [];
  const mine = layer === undefined ? undefined : codes[layer];
  (figure.data as Trace[]).forEach((trace, index) => {
    const { meta } = trace;
    const fill = (lit: boolean) => {
      if (trace.fillcolor) light.fill.set(index, lit ? trace.fillcolor : trace.fillcolor + DIM_HEX);
    };
    if (meta?.layers) {
      const [first, last] = meta.layers;
      fill(layer === undefined || (layer >= first && layer <= last));
    } else if (meta?.code !== undefined) {
      fill(mine === undefined || meta.code === mine);
    } else if (meta?.rows) {
      if (layer !== undefined) light.frames.push({ axis: trace.yaxis ?? "y", row: rowOf(meta.rows, layer) });
    } else if (trace.type === "bar" && trace.customdata !== undefined) {
      const rows = column(trace.customdata);
      const lit = new Float32Array(rows.length);
      for (let bar = 0; bar < lit.length; bar += 1)
        lit[bar] = layer === undefined || rows.at(bar, LAYER_COLUMN) === layer ? 1 : DIM;
      light.bars.set(index, lit);
    }
  });
  return light;
}

/** A point of a drawing, as a plotly event gives it. */
export interface Point {
  customdata?: unknown;
  pointNumber?: number | [number, number];
  data?: { meta?: Meta };
}

/** The layer that a point of a drawing is of; undefined where it is of none, or of several. */
export function layerOfPoint(point: Point | undefined): number | undefined {
  const meta = point?.data?.meta;
  if (meta?.layers) {
    const [first, last] = meta.layers;
    return first === last && first >= 0 ? first : undefined;
  }
  if (meta?.rows) {
    if (!Array.isArray(point?.pointNumber)) return undefined;
    const [first, next] = meta.rows.slice(point.pointNumber[0]);
    return next === (first ?? 0) + 1 ? first : undefined;
  }
  const row = point?.customdata;
  if (!ArrayBuffer.isView(row) && !Array.isArray(row)) return undefined;
  const layer = (row as ArrayLike<number>)[LAYER_COLUMN];
  return layer !== undefined && layer >= 0 ? layer : undefined;
}

function rowOf(edges: number[], layer: number): number {
  return edges.findLastIndex((first) => first <= layer);
}
