import { useMemo, useState } from "react";
import type { PlotlyFigure } from "../api/types";
import { type Ends, zoomed } from "../lib/zoom";

/** A figure that shows `zoom` of its x axis at first: what the address says when it comes. Later zooms are the reader's.
 * What it says of one `axis` means nothing on another one. */
export function useZoomed(
  figure: PlotlyFigure | undefined,
  zoom: Ends | undefined,
  axis?: string,
): PlotlyFigure | undefined {
  const [first] = useState({ zoom, axis });
  const ends = first.axis === axis ? first.zoom : undefined;
  return useMemo(
    () => (figure && ends && !figure.layout.meta?.empty ? zoomed(figure, ends) : figure),
    [figure, ends],
  );
}
