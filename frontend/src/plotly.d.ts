declare module "plotly.js-cartesian-dist-min" {
  type Point = import("./lib/lit").Point;

  /** What an event says: the points of a click, the axes that a zoom changed. */
  export interface PlotlyDetail extends Record<string, unknown> {
    points?: Point[];
  }

  /** The element after it was drawn into. */
  export interface PlotlyElement extends HTMLElement {
    on(event: string, handler: (detail: PlotlyDetail) => void): void;
    removeAllListeners(event: string): void;
  }

  const Plotly: {
    react(element: HTMLElement, data: unknown[], layout: object, config?: object): Promise<PlotlyElement>;
    relayout(element: HTMLElement, change: object): Promise<PlotlyElement>;
    restyle(element: HTMLElement, change: object, traces: number[]): Promise<PlotlyElement>;
    toImage(element: HTMLElement, options: { format: "svg"; width: number; height: number }): Promise<string>;
    purge(element: HTMLElement): void;
    Plots: { resize(element: HTMLElement): Promise<void> };
  };
  export default Plotly;
}
