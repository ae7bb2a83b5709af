import type Plotly from "plotly.js-cartesian-dist-min";
import { useEffect, useRef } from "react";
import type { PlotlyFigure } from "../api/types";

const CONFIG = {
  displaylogo: false,
  responsive: false, // The resize observer below also sees the page's own layout change.
  scrollZoom: false,
  showTips: false,
  // Nothing here leaves the machine: plotly.js otherwise offers to upload the chart.
  plotlyServerURL: "",
  modeBarButtonsToRemove: ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d"],
  doubleClick: "reset+autosize",
};

const loadPlotly = () => import("plotly.js-cartesian-dist-min").then((module) => module.default);

export type XRange = { from: number; to: number } | null;

interface Props {
  figure: PlotlyFigure;
  /** What the drawing says, in words: its headline numbers. */
  label: string;
  testId: string;
  /** How long drawing took, in ms. */
  onDrawn?: (ms: number) => void;
  /** A person zoomed or panned along x; null: everything again. */
  onXRange?: (range: XRange) => void;
}

/** Draws a figure that the backend built, and redraws it in place: zoom and hidden traces stay (uirevision). */
export function PlotlyChart({ figure, label, testId, onDrawn, onXRange }: Props) {
  const element = useRef<HTMLDivElement>(null);
  const rangeHandler = useRef(onXRange);
  rangeHandler.current = onXRange;
  const drawnHandler = useRef(onDrawn);
  drawnHandler.current = onDrawn;

  useEffect(() => {
    const target = element.current;
    if (target === null) return;
    let gone = false;
    void loadPlotly().then(async (plotly) => {
      if (gone) return;
      const layout = { uirevision: testId, ...figure.layout, autosize: true, width: undefined };
      const start = performance.now();
      const chart = await plotly.react(target, figure.data, layout, CONFIG);
      drawnHandler.current?.(performance.now() - start);
      if (gone) return;
      chart.removeAllListeners("plotly_relayout");
      chart.on("plotly_relayout", (change) => {
        const range = rangeOf(change);
        if (range !== undefined) rangeHandler.current?.(range);
      });
      target.dataset.drawn = "true";
    });
    return () => {
      gone = true;
    };
  }, [figure, testId]);

  useEffect(() => {
    const target = element.current;
    if (target === null) return;
    const observer = new ResizeObserver(() => {
      if (target.dataset.drawn) void loadPlotly().then((plotly) => resize(plotly, target));
    });
    observer.observe(target);
    return () => {
      observer.disconnect();
      delete target.dataset.drawn;
      void loadPlotly().then((plotly) => plotly.purge(target));
    };
  }, []);

  return (
    <div
      ref={element}
      className="ty-figure"
      role="img"
      aria-label={label}
      data-testid={testId}
      style={{ height: figure.layout.height ?? 300 }}
    />
  );
}

async function resize(plotly: typeof Plotly, target: HTMLElement): Promise<void> {
  if (target.isConnected && target.offsetWidth > 0) await plotly.Plots.resize(target);
}

/** The x range that a relayout event sets; undefined where it sets none. */
function rangeOf(change: Record<string, unknown>): XRange | undefined {
  if (change["xaxis.autorange"] === true) return null;
  const pair = change["xaxis.range"];
  const [from, to] = Array.isArray(pair) ? pair : [change["xaxis.range[0]"], change["xaxis.range[1]"]];
  return typeof from === "number" && typeof to === "number" ? { from, to } : undefined;
}
