declare module "plotly.js-cartesian-dist-min" {
  /** The element after it was drawn into. */
  export interface PlotlyElement extends HTMLElement {
    on(event: string, handler: (detail: Record<string, unknown>) => void): void;
    removeAllListeners(event: string): void;
  }

  const Plotly: {
    react(element: HTMLElement, data: unknown[], layout: object, config?: object): Promise<PlotlyElement>;
    purge(element: HTMLElement): void;
    Plots: { resize(element: HTMLElement): Promise<void> };
  };
  export default Plotly;
}
