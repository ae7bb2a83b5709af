import type { PlotlyFigure } from "../api/types";

/** Which part of its x axis a figure shows. */
export type Ends = [number, number];

const DIGITS = 6;

/** The zooms in an address, `loss:3:9`, by the figure's name. */
export function zoomsOf(written: string[] | undefined): Record<string, Ends> {
  return Object.fromEntries(
    (written ?? []).flatMap((one) => {
      const [name, from, to] = one.split(":");
      const ends: Ends = [Number(from), Number(to)];
      return name && from && to && ends.every(Number.isFinite) && ends[0] < ends[1] ? [[name, ends]] : [];
    }),
  );
}

/** The same with another one of a figure; null: it shows everything again. */
export function withZoom(
  written: string[] | undefined,
  name: string,
  range: { from: number; to: number } | null,
): string[] | undefined {
  const others = Object.entries(zoomsOf(written)).filter(([other]) => other !== name);
  const all = range ? [...others, [name, [range.from, range.to]] as const] : others;
  const text = all.map(([own, ends]) =>
    [own, ...ends.map((end) => Number(end.toPrecision(DIGITS)))].join(":"),
  );
  return text.length > 0 ? text : undefined;
}

/** A figure that shows this part of its x axes. */
export function zoomed(figure: PlotlyFigure, ends: Ends): PlotlyFigure {
  const layout = { ...figure.layout };
  for (const key of Object.keys(layout).filter((axis) => /^xaxis\d*$/.test(axis)))
    layout[key] = { ...(layout[key] as object), range: ends, autorange: false };
  return { ...figure, layout };
}

/**
 * What a key does to the part of an axis that is shown: plus and minus zoom around its middle, Shift and an arrow move it.
 * Null: everything again, by 0; undefined: it is another key.
 */
export function zoomOfKey([from, to]: Ends, key: string, shift: boolean): Ends | null | undefined {
  const length = to - from;
  const part = (times: number, by: number): Ends => {
    const low = from + (by + (1 - times) / 2) * length;
    return [low, low + times * length];
  };
  if (key === "+" || key === "=") return part(0.5, 0);
  if (key === "-") return part(2, 0);
  if (key === "0") return null;
  if (shift && key === "ArrowLeft") return part(1, -0.25);
  return shift && key === "ArrowRight" ? part(1, 0.25) : undefined;
}
