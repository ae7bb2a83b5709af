import { expect, test } from "vitest";
import { type Stack, spotIn } from "./stack";
import { middleOf, type Place, walked } from "./stackWalk";
import { column } from "./typedColumn";

const area = (name: string, layer: number, values: number[]) => ({
  name,
  layers: [layer, layer] as [number, number],
  values: column([...values, 0]),
});
const panel = (title: string, areas: ReturnType<typeof area>[]): Stack => ({
  x: "x",
  y: "y",
  link: "0:transport",
  direction: "send",
  title,
  rate_bps: null,
  declared: false,
  by_size: false,
  start: 1,
  step: 0.1,
  areas,
});
// By bin: conv and fc, nothing, fc alone, conv alone.
const stacks = [
  panel("first", [area("conv", 0, [10, 0, 0, 30]), area("fc", 5, [20, 0, 40, 0])]),
  panel("empty", []),
  panel("last", [area("conv", 0, [0, 7, 0, 0]), area("other", -1, [0, 2, 0, 0])]),
];
const ALL: [number, number] = [1, 1.4];
const named = (place: Place | undefined) =>
  place && [stacks[place.panel]?.title, place.bin, stacks[place.panel]?.areas[place.area]?.name];
/** Where these arrows lead, one after another. */
const path = (keys: string[], shown = ALL) => {
  let place: Place | undefined;
  return keys.map((key) => {
    const next = walked(stacks, place, `Arrow${key}`, shown);
    place = next ?? place;
    return named(next);
  });
};

test("arrows go from bin to bin in which anything went, by the layer that one began with where it is there", () => {
  expect(path(["Right", "Right", "Right", "Right", "Left", "Left", "Left"])).toEqual([
    ["first", 0, "conv"],
    ["first", 2, "fc"],
    ["first", 3, "conv"],
    undefined,
    ["first", 2, "fc"],
    ["first", 0, "conv"],
    undefined,
  ]);
});

test("arrows go up and down a stack, and on to the next panel that holds something", () => {
  expect(path(["Up", "Up", "Up", "Down", "Down", "Up", "Down", "Down"])).toEqual([
    ["first", 0, "conv"],
    ["first", 0, "fc"],
    undefined,
    ["first", 0, "conv"],
    ["last", 1, "other"],
    ["first", 0, "conv"],
    ["last", 1, "other"],
    ["last", 1, "conv"],
  ]);
});

test("only what is shown counts, and who was elsewhere begins again", () => {
  expect(path(["Right", "Right"], [1.2, 1.3])).toEqual([["first", 2, "fc"], undefined]);
  expect(named(walked(stacks, { panel: 0, bin: 0, area: 0 }, "ArrowUp", [1.2, 1.4]))).toEqual([
    "first",
    2,
    "fc",
  ]);
  expect(walked(stacks, undefined, "ArrowUp", [5, 6])).toBeUndefined();
});

test("other keys lead nowhere", () => {
  expect(walked(stacks, undefined, "Enter", ALL)).toBeUndefined();
});

test("what lies in the middle of a place is its own area", () => {
  const place = { panel: 0, bin: 0, area: 1 };
  const { x, y } = middleOf(stacks[0] as Stack, place);
  expect([x, y]).toEqual([1.05, 20]);
  expect(spotIn(stacks[0] as Stack, x, y)?.area).toMatchObject({ name: "fc", bps: 20 });
});
