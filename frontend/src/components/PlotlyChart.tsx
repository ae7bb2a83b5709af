import type Plotly from "plotly.js-cartesian-dist-min";
import { useCallback, useEffect, useRef } from "react";
import type { PlotlyFigure } from "../api/types";
import type { Frame, Point } from "../lib/lit";
import { frame } from "./frames";
import { shine } from "./shine";
import { turn } from "./turns";

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
  /** A person clicked a point. */
  onPoint?: (point: Point) => void;
  /** A person points at it; undefined: no longer. */
  onPointed?: (point: Point | undefined) => void;
  /** The layer that is lit up. */
  layer?: number;
  /** Another figure was asked for, and this one stays until it comes. */
  pending?: boolean;
}

/** Draws a figure that the backend built, and redraws it in place: zoom and hidden traces stay (uirevision). */
export function PlotlyChart(props: Props) {
  const { figure, label, testId, layer, pending } = props;
  const element = useRef<HTMLDivElement>(null);
  const current = useRef(props);
  current.current = props;
  const over = useRef<HTMLDivElement>(null);
  // What the chart shows: the figure that came last may still wait for its turn.
  const shown = useRef<PlotlyFigure | undefined>(undefined);
  const lit = useRef<number | undefined>(undefined);
  const frames = useRef<Frame[]>([]);
  const held = useRef<Promise<void> | undefined>(undefined);
  const showFrames = useCallback(() => {
    if (element.current && over.current) frame(element.current, over.current, frames.current);
  }, []);
  const light = useCallback(
    async (plotly: typeof Plotly, target: HTMLElement) => {
      const { layer } = current.current;
      if (shown.current === undefined || lit.current === layer) return;
      lit.current = layer;
      frames.current = await shine(plotly, target, shown.current, layer);
      showFrames();
      if (layer === undefined) delete target.dataset.layer;
      else target.dataset.layer = String(layer);
    },
    [showFrames],
  );

  useEffect(() => {
    const target = element.current;
    if (target === null) return;
    // Drawing takes a moment, in which a drag would stand still, and would end it: news of the same view wait.
    const hold = ({ button }: PointerEvent) => {
      if (button !== 0) return; // a menu may keep the others' release
      held.current = letGo().then(() => {
        held.current = undefined;
      });
    };
    target.addEventListener("pointerdown", hold, { capture: true });
    return () => target.removeEventListener("pointerdown", hold, { capture: true });
  }, []);

  useEffect(() => {
    const target = element.current;
    if (target === null) return;
    let gone = false;
    void loadPlotly().then(async (plotly) => {
      await turn();
      while (held.current && !gone && viewOf(target) === figure.layout.uirevision) await held.current;
      if (gone) return;
      const layout = { uirevision: testId, ...figure.layout, autosize: true, width: undefined };
      const start = performance.now();
      const chart = await plotly.react(target, figure.data.map(copied), layout, CONFIG);
      current.current.onDrawn?.(performance.now() - start);
      shown.current = figure;
      lit.current = undefined;
      if (gone) return;
      await light(plotly, target);
      chart.removeAllListeners("plotly_afterplot");
      chart.on("plotly_afterplot", showFrames);
      chart.removeAllListeners("plotly_relayout");
      chart.on("plotly_relayout", (change) => {
        const range = rangeOf(change);
        if (range !== undefined) current.current.onXRange?.(range);
      });
      for (const event of ["plotly_click", "plotly_hover", "plotly_unhover"]) chart.removeAllListeners(event);
      chart.on("plotly_click", ({ points }) => points?.[0] && current.current.onPoint?.(points[0]));
      chart.on("plotly_hover", ({ points }) => current.current.onPointed?.(points?.[0]));
      chart.on("plotly_unhover", () => current.current.onPointed?.(undefined));
      target.dataset.drawn = "true";
    });
    return () => {
      gone = true;
    };
  }, [figure, testId, light, showFrames]);

  useEffect(() => {
    const target = element.current;
    if (target?.dataset.drawn && lit.current !== layer)
      void loadPlotly().then((plotly) => light(plotly, target));
  }, [layer, light]);

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
    <div style={{ position: "relative" }}>
      <div
        ref={element}
        className="ty-figure"
        role="img"
        aria-label={label}
        data-testid={testId}
        data-pending={pending || undefined}
        aria-busy={pending || undefined}
        style={{ height: figure.layout.height ?? 300 }}
      />
      <div ref={over} className="ty-frames" aria-hidden />
    </div>
  );
}

/** The `uirevision` of what is drawn: figures of one view share their axes. */
function viewOf(target: HTMLElement): unknown {
  return (target as { layout?: PlotlyFigure["layout"] }).layout?.uirevision;
}

/** When the pointer that is down has been released, and what that does is done. */
function letGo(): Promise<void> {
  return new Promise((resolve) => {
    const up = () => {
      for (const event of ["pointerup", "pointercancel"]) window.removeEventListener(event, up);
      setTimeout(resolve);
    };
    for (const event of ["pointerup", "pointercancel"]) window.addEventListener(event, up);
  });
}

/** Lighting up changes traces in place: the answer that others may draw again stays as it came. */
function copied(trace: unknown): unknown {
  const one = trace as { marker?: object };
  return { ...one, ...(one.marker && { marker: { ...one.marker } }) };
}

async function resize(plotly: typeof Plotly, target: HTMLElement): Promise<void> {
  if (target.isConnected && target.offsetWidth > 0) await plotly.Plots.resize(target);
}

/** The x range that a relayout event sets; undefined where it sets none. */
function rangeOf(change: Record<string, unknown>): XRange | undefined {
  // Of several panels' axes, which go together, the one that was moved.
  const axis = Object.keys(change)
    .find((key) => key.startsWith("xaxis"))
    ?.split(".")[0];
  if (change[`${axis}.autorange`] === true) return null;
  const pair = change[`${axis}.range`];
  const [from, to] = Array.isArray(pair) ? pair : [change[`${axis}.range[0]`], change[`${axis}.range[1]`]];
  return typeof from === "number" && typeof to === "number" ? { from, to } : undefined;
}
