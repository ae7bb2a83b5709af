import { type KeyboardEvent, type PointerEvent, type RefObject, useEffect, useRef, useState } from "react";
import { clickedAt, kept, lengthText, type Measured, movedBy } from "../lib/measure";

/** Where a drawing's panel lies in it, in pixels, and which times it shows, in s on its axis. */
export interface PlotArea {
  left: number;
  width: number;
  top: number;
  height: number;
  from: number;
  to: number;
}

// A pointer that moves further between press and release drags, which looks closer.
const CLICK_PX = 4;

interface Props {
  area: PlotArea;
  /** Where the attempt's clock is 0 on the axis: times of `measured` are on the clock. */
  origin_ns: number;
  measured: Measured;
  onMeasured: (measured: Measured) => void;
  /** Whether the first line gets the focus when it comes; false again once it has it. */
  takesFocus: RefObject<boolean>;
}

/** Two lines over a drawing, and how much time lies between them. Two clicks place them; each is dragged, or moved with
 * the arrow keys. */
export function Measure({ area, origin_ns, measured, onMeasured, takesFocus }: Props) {
  const [moving, setMoving] = useState<Measured>();
  const [first, setFirst] = useState<number>();
  const over = useRef<HTMLDivElement>(null);
  const [one, other] = moving ?? measured;
  const seconds = area.to - area.from;
  const pixelOf = (ns: number) => (((ns - origin_ns) / 1e9 - area.from) / seconds) * area.width;
  const inView = (ns: number) => pixelOf(ns) >= 0 && pixelOf(ns) <= area.width;
  const within = (pixel: number) => Math.min(Math.max(pixel, 0), area.width);
  const [low, high] = [within(pixelOf(Math.min(one, other))), within(pixelOf(Math.max(one, other)))];
  const replaced = (end: 0 | 1, ns: number): Measured => (end === 0 ? [ns, other] : [one, ns]);

  const clock = (second: number) => origin_ns + second * 1e9;
  const view = { from_ns: clock(area.from), to_ns: clock(area.to) };

  const click = (x: number) => {
    const box = over.current?.getBoundingClientRect();
    if (box === undefined || x < box.left || x > box.right) return;
    const ns = Math.round(clock(area.from + ((x - box.left) / area.width) * seconds));
    onMeasured(clickedAt(ns, first));
    setFirst(first === undefined ? ns : undefined);
  };
  const clicked = useRef(click);
  clicked.current = click;
  useEffect(() => {
    // The drawing below keeps its wheel, its drags and what it says when pointed at: it is listened to from outside.
    const drawing = over.current?.parentElement?.querySelector(".ty-figure");
    if (!(drawing instanceof HTMLElement)) return;
    let pressed: { x: number; y: number } | undefined;
    const press = ({ button, clientX, clientY, target }: globalThis.PointerEvent) => {
      const tool = target instanceof Element && target.closest(".modebar") !== null;
      pressed = button === 0 && !tool ? { x: clientX, y: clientY } : undefined;
    };
    // While a drag may begin, plotly.js covers the page: the release is seen there only.
    const release = ({ clientX, clientY }: globalThis.PointerEvent) => {
      const near = pressed && Math.hypot(clientX - pressed.x, clientY - pressed.y) < CLICK_PX;
      pressed = undefined;
      if (near) clicked.current(clientX);
    };
    drawing.addEventListener("pointerdown", press, { capture: true });
    window.addEventListener("pointerup", release);
    return () => {
      drawing.removeEventListener("pointerdown", press, { capture: true });
      window.removeEventListener("pointerup", release);
    };
  }, []);

  useEffect(() => {
    if (!takesFocus.current) return;
    takesFocus.current = false;
    over.current?.querySelector<HTMLElement>("[role=slider]:not([hidden])")?.focus({ preventScroll: true });
  }, [takesFocus]);

  const drag = (end: 0 | 1) => (event: PointerEvent<HTMLElement>) => {
    const handle = event.currentTarget;
    if (!handle.hasPointerCapture(event.pointerId)) return;
    const start = handle.parentElement?.getBoundingClientRect().left ?? 0;
    const share = within(event.clientX - start) / area.width;
    setMoving(replaced(end, Math.round(clock(area.from + share * seconds))));
  };
  const release = () => {
    if (moving) onMeasured(moving);
    setMoving(undefined);
  };
  const press = (end: 0 | 1) => (event: KeyboardEvent) => {
    const by = movedBy(event.key, event.shiftKey, seconds);
    if (by === undefined) return;
    event.preventDefault();
    onMeasured(replaced(end, kept((end === 0 ? one : other) + by * 1e9, view)));
  };
  const text = lengthText(other - one);
  return (
    <div
      ref={over}
      className="ty-measure"
      style={{ left: area.left, width: area.width, top: area.top, height: area.height }}
      data-testid="measure"
    >
      <div className="ty-measured" style={{ left: low, width: high - low }} />
      {([0, 1] as const).map((end) => {
        const ns = end === 0 ? one : other;
        return (
          <div
            key={end}
            role="slider"
            tabIndex={0}
            aria-label={end === 0 ? "Measure from" : "Measure to"}
            aria-valuemin={area.from * 1e3}
            aria-valuemax={area.to * 1e3}
            aria-valuenow={(ns - origin_ns) / 1e6}
            aria-valuetext={`${((ns - origin_ns) / 1e6).toFixed(3)} ms; between the two ${text}`}
            hidden={!inView(ns)}
            className="ty-measure-end"
            style={{ left: pixelOf(ns) }}
            onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
            onPointerMove={drag(end)}
            onPointerUp={release}
            onPointerCancel={release}
            onKeyDown={press(end)}
            data-testid={`measure-${end}`}
          />
        );
      })}
      {high > low && (
        <output className="ty-measure-text" style={{ left: (low + high) / 2 }} data-testid="measure-text">
          {text}
        </output>
      )}
    </div>
  );
}
