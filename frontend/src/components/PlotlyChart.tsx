import type Plotly from "plotly.js-cartesian-dist-min";
import { type KeyboardEvent, type ReactNode, useCallback, useEffect, useRef, useState } from "react";
import type { PlotlyFigure } from "../api/types";
import type { Frame, Point } from "../lib/lit";
import { isStacked, type Stack, stacksOf } from "../lib/stack";
import { type Ends, zoomOfKey } from "../lib/zoom";
import { areaOf, frame } from "./frames";
import type { PlotArea } from "./Measure";
import { loadPlotly } from "./plotly";
import { probe } from "./probe";
import { shine } from "./shine";
import { TakeFigure } from "./TakeFigure";
import { turn } from "./turns";

const CONFIG = {
  displaylogo: false,
  responsive: false, // The resize observer below also sees the page's own layout change.
  showTips: false,
  // Nothing here leaves the machine: plotly.js otherwise offers to upload the chart.
  plotlyServerURL: "",
  // What is taken along is below the drawing, where a keyboard comes, too.
  modeBarButtonsToRemove: ["toImage", "sendChartToCloud", "select2d", "lasso2d", "autoScale2d"],
  doubleClick: "reset+autosize" as string | false,
};

const FINE = "(hover: hover) and (pointer: fine)";

export type XRange = { from: number; to: number } | null;

interface Props {
  figure: PlotlyFigure;
  /** What the drawing says, in words: its headline numbers. */
  label: string;
  testId: string;
  /** What files of it are called: the job and the figure. */
  file: () => string;
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
  /** The wheel zooms time around the pointer, in place of scrolling the page. */
  wheel?: boolean;
  /** What lies over the drawing. */
  overlay?: (area: PlotArea) => ReactNode;
  /** Clicks are the overlay's: two in a row do not show everything again. */
  measuring?: boolean;
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
  const tip = useRef<HTMLDivElement>(null);
  const stacks = useRef<Stack[]>([]);
  // What the chart shows: the figure that came last may still wait for its turn.
  const shown = useRef<PlotlyFigure | undefined>(undefined);
  const lit = useRef<number | undefined>(undefined);
  const frames = useRef<Frame[]>([]);
  const held = useRef<Promise<void> | undefined>(undefined);
  const [area, setArea] = useState<PlotArea>();
  const showFrames = useCallback(() => {
    if (!element.current || !over.current) return;
    frame(element.current, over.current, frames.current);
    if (current.current.overlay) setArea(areaOf(element.current));
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

  const { measuring = false } = props;
  const stacked = isStacked(figure);
  useEffect(() => {
    const [target, label] = [element.current, tip.current];
    if (!stacked || target === null || label === null) return;
    const ask = () => ({
      stacks: stacks.current,
      onPointed: current.current.onPointed,
      onPoint: current.current.onPoint,
    });
    return probe(target, label, ask);
  }, [stacked]);

  useEffect(() => {
    const target = element.current;
    if (target === null) return;
    let gone = false;
    void loadPlotly().then(async (plotly) => {
      await turn();
      while (held.current && !gone && viewOf(target) === figure.layout.uirevision) await held.current;
      if (gone) return;
      stacks.current = stacksOf(figure);
      const hovermode = stacks.current.length > 0 ? false : figure.layout.hovermode; // the probe finds more
      // A narrow figure may be on a laptop, too, where nobody scrolls by dragging.
      const dragmode = figure.layout.dragmode || (matchMedia(FINE).matches ? "zoom" : false);
      const layout = {
        uirevision: testId,
        ...figure.layout,
        dragmode,
        hovermode,
        autosize: true,
        width: undefined,
      };
      const start = performance.now();
      const config = { ...CONFIG, scrollZoom: current.current.wheel ?? false };
      if (measuring) config.doubleClick = false; // two clicks in a row measure
      const chart = await plotly.react(target, figure.data.map(copied), layout, config);
      current.current.onDrawn?.(performance.now() - start);
      shown.current = figure;
      lit.current = undefined;
      if (gone) return;
      await light(plotly, target);
      showFrames();
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
  }, [figure, testId, light, showFrames, measuring]);

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
      {/* biome-ignore lint/a11y/useSemanticElements: a browser gives <figure> margins, and charts are measured */}
      <div
        ref={element}
        className="ty-figure"
        role="figure"
        aria-label={label}
        aria-keyshortcuts={`Plus - 0 Shift+ArrowLeft Shift+ArrowRight${stacked ? " ArrowLeft ArrowRight ArrowUp ArrowDown Enter" : ""}`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what a drag zooms, keys zoom, too
        tabIndex={0}
        onKeyDown={zoomByKey}
        data-testid={testId}
        data-pending={pending || undefined}
        aria-busy={pending || undefined}
        style={{ height: figure.layout.height ?? 300 }}
      />
      <div className="ty-keys" aria-hidden>
        {stacked && "← → ↑ ↓ name layers, ⏎ keeps one; "}+ − zoom, ⇧ ← → move, 0 shows all
      </div>
      <div ref={over} className="ty-frames" aria-hidden />
      <div ref={tip} className="ty-tip" data-testid={`tip-${testId}`} aria-live="polite" hidden />
      {area && props.overlay?.(area)}
      <TakeFigure element={element} figure={figure} file={props.file} />
    </div>
  );
}

/** Zooms a chart that has the focus, and moves it, along x. */
function zoomByKey(event: KeyboardEvent<HTMLElement>): void {
  const target = event.currentTarget;
  const axis = (target as unknown as { _fullLayout?: { xaxis?: Axis } })._fullLayout?.xaxis;
  if (axis === undefined || axis.fixedrange || event.ctrlKey || event.metaKey || event.altKey) return;
  const range = zoomOfKey(axis.range, event.key, event.shiftKey);
  if (range === undefined) return;
  event.preventDefault();
  const change = range ? { "xaxis.range": range } : { "xaxis.autorange": true };
  void loadPlotly().then((plotly) => plotly.relayout(target, change));
}

/** What plotly.js knows of an axis that it has drawn. */
interface Axis {
  range: Ends;
  fixedrange?: boolean;
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
