import { formatPercent, formatRate } from "../lib/format";
import type { Point } from "../lib/lit";
import { OVERFULL, whyOverfull } from "../lib/overfull";
import { type Spot, type Stack, spotIn } from "../lib/stack";
import { middleOf, type Place, walked } from "../lib/stackWalk";
import type { Ends } from "../lib/zoom";

interface Axis {
  _offset: number;
  _length: number;
  range: Ends;
  p2l: (pixel: number) => number;
  l2p: (value: number) => number;
}

interface Drawn {
  _fullLayout?: Record<string, Axis>;
}

interface Asked {
  stacks: Stack[];
  onPointed?: (point: Point | undefined) => void;
  onPoint?: (point: Point) => void;
}

const CLICK_PX = 4;
const BESIDE_PX = 14;

/**
 * Name what lies under the pointer in a figure of stacked areas, in a label that follows it. plotly.js finds corners of
 * areas only, within 20 pixels; here the time gives the bin, and the height the layer in its stack. By keyboard the arrows
 * go from one to the next, Enter keeps it as a click does, and Escape hides the label. `ask` answers what is drawn, and
 * who wants to know. Answers how to end it.
 */
export function probe(target: HTMLElement, tip: HTMLElement, ask: () => Asked): () => void {
  let pressed: { x: number; y: number } | undefined;
  let frame = 0;
  let named: string | undefined;
  let walk: Place | undefined; // where the arrow keys are

  const tell = (spot: Spot | undefined) => {
    const layers = spot?.area?.layers;
    if (named === layers?.join()) return;
    named = layers?.join();
    ask().onPointed?.(layers && { data: { meta: { layers } } });
  };
  const hide = () => {
    cancelAnimationFrame(frame);
    tip.hidden = true;
    walk = undefined;
    tell(undefined);
  };
  /** Beside a place of the drawing, in pixels from its corner. */
  const label = (spot: Spot, x: number, y: number) => {
    write(tip, spot);
    tip.hidden = false;
    const left = x + BESIDE_PX;
    const room = target.offsetWidth - tip.offsetWidth;
    tip.style.left = `${left > room ? Math.max(0, left - tip.offsetWidth - 2 * BESIDE_PX) : left}px`;
    tip.style.top = `${Math.max(0, y - tip.offsetHeight - BESIDE_PX / 2)}px`;
    tell(spot);
  };
  const show = (clientX: number, clientY: number) => {
    const box = target.getBoundingClientRect();
    const [x, y] = [clientX - box.left, clientY - box.top];
    const spot = spotAt(target, ask().stacks, x, y);
    walk = undefined;
    if (spot === undefined) hide();
    else label(spot, x, y);
  };
  const keyed = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const { stacks, onPoint } = ask();
    const at = walk && stacks[walk.panel];
    const axes = axesOf(target, at ?? stacks[0]);
    if (axes === undefined) return;
    if (event.key === "Escape" && !tip.hidden) hide();
    else if (event.key === "Enter" && walk && at) {
      const layers = at.areas[walk.area]?.layers;
      if (layers) onPoint?.({ data: { meta: { layers } } });
    } else if (event.key.startsWith("Arrow")) {
      walk = walked(stacks, walk, event.key, axes.across.range) ?? walk;
      const there = walk && placed(target, stacks, walk);
      if (there) {
        label(there.spot, there.left, there.top);
        tip.append(mark(there.left - tip.offsetLeft, there.top - tip.offsetTop));
      }
      tip.scrollIntoView({ block: "nearest" });
    } else return;
    event.preventDefault();
  };
  const moved = ({ clientX, clientY, buttons, pointerType }: PointerEvent) => {
    cancelAnimationFrame(frame);
    if (buttons !== 0 && pointerType === "mouse")
      hide(); // a drag selects time
    else frame = requestAnimationFrame(() => show(clientX, clientY));
  };
  const down = (event: PointerEvent) => {
    pressed = event.button === 0 ? { x: event.clientX, y: event.clientY } : undefined;
    if (event.pointerType !== "mouse") moved(event);
  };
  // Where a drag began, plotly.js puts something over the page, which hears of the release.
  const up = ({ clientX: x, clientY: y }: PointerEvent) => {
    const still = pressed && Math.hypot(x - pressed.x, y - pressed.y) < CLICK_PX;
    pressed = undefined;
    if (!still) return;
    const box = target.getBoundingClientRect();
    const layers = spotAt(target, ask().stacks, x - box.left, y - box.top)?.area?.layers;
    if (layers) ask().onPoint?.({ data: { meta: { layers } } });
  };
  // A finger that lifts leaves, too, and only then one can read what it covered: that stays until one touches elsewhere.
  const left = ({ pointerType }: PointerEvent) => pointerType === "mouse" && hide();
  const elsewhere = ({ target: touched }: PointerEvent) =>
    !(touched instanceof Node && target.contains(touched)) && hide();
  target.addEventListener("keydown", keyed);
  target.addEventListener("blur", hide);
  target.addEventListener("pointermove", moved);
  target.addEventListener("pointerleave", left);
  target.addEventListener("pointerdown", down, { capture: true });
  window.addEventListener("pointerdown", elsewhere, { capture: true });
  window.addEventListener("pointerup", up);
  return () => {
    cancelAnimationFrame(frame);
    target.removeEventListener("keydown", keyed);
    target.removeEventListener("blur", hide);
    target.removeEventListener("pointermove", moved);
    target.removeEventListener("pointerleave", left);
    target.removeEventListener("pointerdown", down, { capture: true });
    window.removeEventListener("pointerdown", elsewhere, { capture: true });
    window.removeEventListener("pointerup", up);
  };
}

/** What lies at a place of the drawing, in pixels from its corner. */
function spotAt(target: HTMLElement, stacks: Stack[], left: number, top: number): Spot | undefined {
  for (const stack of stacks) {
    const axes = axesOf(target, stack);
    if (!axes) continue;
    const { across, up } = axes;
    const [x, y] = [left - across._offset, top - up._offset];
    if (x < 0 || x >= across._length || y < 0 || y >= up._length) continue;
    return spotIn(stack, across.p2l(x), up.p2l(y));
  }
  return undefined;
}

/** What the arrow keys came to, and where it is drawn: at the edge, where the stack is higher than its panel. */
function placed(
  target: HTMLElement,
  stacks: Stack[],
  place: Place,
): { spot: Spot; left: number; top: number } | undefined {
  const stack = stacks[place.panel];
  const axes = axesOf(target, stack);
  if (!stack || !axes) return undefined;
  const { x, y } = middleOf(stack, place);
  const spot = spotIn(stack, x, y);
  const { across, up } = axes;
  return spot && { spot, left: across._offset + across.l2p(x), top: up._offset + Math.max(0, up.l2p(y)) };
}

/** What shows a place beside the label, in pixels from its corner. */
function mark(left: number, top: number): HTMLElement {
  const here = document.createElement("div");
  here.className = "ty-here";
  here.style.left = `${left}px`;
  here.style.top = `${top}px`;
  return here;
}

/** The axes of a panel, as plotly.js has drawn them. */
function axesOf(target: HTMLElement, stack: Stack | undefined): { across: Axis; up: Axis } | undefined {
  const layout = (target as Drawn)._fullLayout;
  const across = stack && layout?.[stack.x.replace("x", "xaxis")];
  const up = stack && layout?.[stack.y.replace("y", "yaxis")];
  return across && up && { across, up };
}

function write(tip: HTMLElement, { stack, area, from, to, bps, share }: Spot): void {
  const name = document.createElement("b");
  name.textContent = area?.name ?? "All layers";
  const split = stack.by_size && area && area.layers[0] >= 0 ? ", split by size" : "";
  const whole = area ? `; all together ${amount(bps, share)}` : "";
  const lines = [
    ` ${amount(area?.bps ?? bps, area ? area.share : share)}${split}`,
    `${stack.title}, ${from.toFixed(3)} to ${to.toFixed(3)} s${whole}`,
  ];
  if (share !== null && share > OVERFULL)
    lines.push(`Above 100 %, this bin holds ${whyOverfull(stack.declared)}`);
  const parts = lines.map((text, index) => {
    const line = document.createElement("div");
    line.append(...(index === 0 ? [name] : []), text);
    return line;
  });
  tip.replaceChildren(...parts);
  if (area)
    tip.dataset.layer = area.layers[0] === area.layers[1] ? `${area.layers[0]}` : area.layers.join("-");
  else delete tip.dataset.layer;
}

function amount(bps: number, share: number | null): string {
  return share === null ? formatRate(bps) : `${formatPercent(share)} (${formatRate(bps)})`;
}
