import type Plotly from "plotly.js-cartesian-dist-min";
import type { PlotlyFigure } from "../api/types";
import { type Frame, lightOf } from "../lib/lit";

/** Light up one layer in a drawing, in place; undefined: all are as the figure has them. Answers the rows to frame. */
export async function shine(
  plotly: typeof Plotly,
  target: HTMLElement,
  figure: PlotlyFigure,
  layer: number | undefined,
): Promise<Frame[]> {
  const { fill, bars, frames } = lightOf(figure, layer);
  if (fill.size > 0) await plotly.restyle(target, { fillcolor: [...fill.values()] }, [...fill.keys()]);
  if (bars.size > 0) await plotly.restyle(target, { "marker.opacity": [...bars.values()] }, [...bars.keys()]);
  return frames;
}
