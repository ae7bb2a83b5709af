import type { Stack } from "./stack";
import type { Ends } from "./zoom";

/** Where the arrow keys are among stacked areas: numbers of the panel, of the bin in it, and of the area in that. */
export interface Place {
  panel: number;
  bin: number;
  area: number;
  /** The area that one came from by going left or right: it is gone back to where a bin has it again. */
  sought?: number;
}

const MIDDLE = 0.5; // of a bin

/**
 * Where an arrow leads from a place. Left and right: to the next bin in which anything went, and in it to the layer that one
 * began with, or the nearest one. Up and down: to the next layer in the bin, and beyond the last one to the next panel. From nowhere
 * it leads to the first layer of the first bin. Bins count whose middle is in `shown`, s. Undefined: the key is no
 * arrow, or nothing lies that way.
 */
export function walked(
  stacks: Stack[],
  from: Place | undefined,
  key: string,
  shown: Ends,
): Place | undefined {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: 1, ArrowDown: -1 }[key];
  if (step === undefined) return undefined;
  const here = from && stacks[from.panel];
  if (from === undefined || here === undefined || !isShown(here, from.bin, shown))
    return begin(stacks, shown);
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const bins = filled(here, shown);
    const bin = step > 0 ? bins.find((one) => one > from.bin) : bins.findLast((one) => one < from.bin);
    const sought = from.sought ?? from.area;
    return bin === undefined
      ? undefined
      : { ...from, bin, sought, area: nearest(areasIn(here, bin), sought) };
  }
  const areas = areasIn(here, from.bin);
  const area = step > 0 ? areas.find((one) => one > from.area) : areas.findLast((one) => one < from.area);
  if (area !== undefined) return { panel: from.panel, bin: from.bin, area };
  for (let panel = from.panel - step; stacks[panel] !== undefined; panel -= step) {
    const there = stacks[panel] as Stack;
    const bins = filled(there, shown);
    if (bins.length === 0) continue;
    const bin = nearest(bins, from.bin);
    return { panel, bin, area: areasIn(there, bin).at(step > 0 ? 0 : -1) ?? 0 };
  }
  return undefined;
}

/** The middle of a place's area: s, and bit/s from the bottom of its stack. */
export function middleOf(stack: Stack, { bin, area }: Place): { x: number; y: number } {
  const below = stack.areas.slice(0, area).reduce((sum, { values }) => sum + values.at(bin), 0);
  return { x: timeOf(stack, bin), y: below + (stack.areas[area]?.values.at(bin) ?? 0) / 2 };
}

function begin(stacks: Stack[], shown: Ends): Place | undefined {
  for (const [panel, stack] of stacks.entries()) {
    const bin = filled(stack, shown)[0];
    if (bin !== undefined) return { panel, bin, area: areasIn(stack, bin)[0] ?? 0 };
  }
  return undefined;
}

/** The bins that are shown and in which anything went. */
function filled(stack: Stack, shown: Ends): number[] {
  const bins = Math.max(0, ...stack.areas.map(({ values }) => values.length - 1)); // the last value ends the bin before it
  return Array.from({ length: bins }, (_, bin) => bin).filter(
    (bin) => isShown(stack, bin, shown) && stack.areas.some(({ values }) => values.at(bin) > 0),
  );
}

/** The areas of a bin that hold something, from the bottom up. */
function areasIn(stack: Stack, bin: number): number[] {
  return stack.areas.flatMap(({ values }, area) => (values.at(bin) > 0 ? [area] : []));
}

function nearest(all: number[], to: number): number {
  return all.reduce((best, one) => (Math.abs(one - to) < Math.abs(best - to) ? one : best));
}

function isShown(stack: Stack, bin: number, [from, to]: Ends): boolean {
  const time = timeOf(stack, bin);
  return time >= from && time <= to;
}

function timeOf(stack: Stack, bin: number): number {
  return stack.start + (bin + MIDDLE) * stack.step;
}
