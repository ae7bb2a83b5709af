import { expect, test } from "vitest";
import type { LayerPlan, Override } from "../api/types";
import {
  axisOf,
  byHand,
  type Choice,
  choose,
  chooseOptions,
  chosen,
  chosenOptions,
  forget,
  meant,
  only,
  pending,
  phrase,
  refusals,
  refusedChoice,
  refusedOption,
  some,
  type Value,
} from "./overrides";

const wide: Override = { kind: "linear", least_parameters: 1000, exchange: "ring-allreduce" };
const problem = (field: string) => ({ field, rule: "hangs", remedy: "Use fifo" });
const rows = [
  { layer: "conv", kind: "Conv2d" },
  { layer: "conv.norm", kind: "BatchNorm2d" },
  { layer: "fc", kind: "Linear" },
  { layer: "out", kind: "Linear" },
  { layer: "", kind: "Tied" },
  { layer: "a[0]*", kind: "Tied" },
];
const one = (overrides: Override[], layer: string, choice: Choice, value: Value) =>
  choose(overrides, rows, only(layer), choice, value);
const linear = some("", "Linear");

test("a choice becomes an override of its layer, behind whatever else means it", () => {
  const first = one([wide], "fc", "codec", "fp16");
  expect(first).toEqual([wide, { layers: "fc", codec: "fp16" }]);
  expect(one(first, "fc", "rank", "fifo")).toEqual([wide, { layers: "fc", codec: "fp16", rank: "fifo" }]);
  const all: Override = { layers: "*", depart: "when-ready" };
  const second = one([...first, all], "fc", "rank", "fifo");
  expect(second).toEqual([wide, { layers: "fc", codec: "fp16" }, all, { layers: "fc", rank: "fifo" }]);
  expect(one([...first, wide], "fc", "rank", "fifo")).toHaveLength(4);
  expect(byHand(second, only("fc"))).toBe(3);
  expect(byHand(second, only("conv"))).toBe(-1);
  expect(forget(second, "fc")).toEqual([wide, all]);
});

test("a choice that is taken back leaves nothing behind", () => {
  const first = one([], "fc", "codec", "fp16");
  const two = one(first, "fc", "rank", "fifo");
  expect(one(two, "fc", "rank", null)).toEqual([{ layers: "fc", codec: "fp16" }]);
  expect(one(first, "fc", "codec", null)).toEqual([]);
  expect(forget([wide, ...two], "fc")).toEqual([wide]);
});

test("a choice for several layers is one override", () => {
  const both = choose([wide], rows, linear, "codec", "fp16");
  expect(both).toEqual([wide, { layers: "*", kind: "Linear", codec: "fp16" }]);
  expect(choose(both, rows, linear, "rank", "fifo")[1]).toEqual({
    layers: "*",
    kind: "Linear",
    codec: "fp16",
    rank: "fifo",
  });
  expect(choose([], rows, some("conv", null), "codec", "fp16")).toEqual([
    { layers: "*conv*", codec: "fp16" },
  ]);
  expect(meant(some("conv.*", null), rows)).toEqual([rows[1]]);
  expect(meant(some("conv", "Conv2d"), rows)).toEqual([rows[0]]);
  expect(meant(some("", null), rows)).toEqual(rows);
  expect(meant(some("[!f]?t", null), rows)).toEqual([rows[3]]);
  expect(meant(some("[]", null), rows)).toEqual([]);
});

test("what was chosen before for some of the layers gives way, what was chosen for more of them stays", () => {
  const before = one(one([], "fc", "codec", "fp16"), "fc", "rank", "fifo");
  const after = choose(before, rows, linear, "codec", "fp32");
  expect(after).toEqual([
    { layers: "fc", rank: "fifo" },
    { layers: "*", kind: "Linear", codec: "fp32" },
  ]);
  expect(choose(one([], "out", "codec", "fp16"), rows, linear, "codec", "fp32")).toHaveLength(1);
  const again = one(after, "fc", "codec", "fp16");
  expect(again.slice(1)).toEqual([
    { layers: "*", kind: "Linear", codec: "fp32" },
    { layers: "fc", codec: "fp16" },
  ]);
  expect(choose(again, rows, some("", null), "codec", null)).toEqual([{ layers: "fc", rank: "fifo" }]);
});

test("options are said beside the value that they belong to", () => {
  const once = chooseOptions([], rows, only("fc"), "codec", "top-k", { ratio: 0.02 });
  expect(once).toEqual([{ layers: "fc", codec: "top-k", codec_options: { ratio: 0.02 } }]);
  const twice = chooseOptions(once, rows, only("fc"), "codec", "top-k", { ratio: 0.05 });
  expect(twice).toEqual([{ layers: "fc", codec: "top-k", codec_options: { ratio: 0.05 } }]);
  expect(choose(twice, rows, only("fc"), "codec", null)).toEqual([]);
});

test("answers are chosen among codecs, apart from what gradients travel as", () => {
  expect(axisOf("answers")).toBe("codec");
  const plan = { codec: "top-k", answers: "int8", answer_options: { block: 64 } } as unknown as LayerPlan;
  expect(chosen(plan, "answers")).toBe("int8");
  expect(chosenOptions(plan, "answers", undefined)).toEqual({ block: 64 });
  const both = chooseOptions(one([], "fc", "codec", "top-k"), rows, only("fc"), "answers", "int8", {
    block: 64,
  });
  expect(both).toEqual([{ layers: "fc", codec: "top-k", answers: "int8", answer_options: { block: 64 } }]);
  expect(one(both, "fc", "answers", "fp16")).toEqual([{ layers: "fc", codec: "top-k", answers: "fp16" }]);
});

test("a refusal of an option says which", () => {
  expect(refusedOption(problem("overrides.0.codec_options.ratio"))).toBe("ratio");
  expect(refusedOption(problem("layers.fc.activation_options.neighbours"))).toBe("neighbours");
  expect(refusedOption(problem("layers.fc.codec"))).toBe("");
});

test("while a plan is made, options are those of the codec that was chosen last", () => {
  const plan = { codec: "int8", codec_options: { block: 64 } } as unknown as LayerPlan;
  expect(chosenOptions(plan, "codec", undefined)).toEqual({ block: 64 });
  expect(chosenOptions(plan, "codec", { codec: "top-k", codec_options: { ratio: 0.02 } })).toEqual({
    ratio: 0.02,
  });
  expect(chosenOptions(plan, "codec", { codec_options: { block: 128 } })).toEqual({ block: 128 });
});

test("another codec or memory mechanism does not keep the old one's options", () => {
  const overrides: Override[] = [
    { layers: "fc", codec: "top-k", codec_options: { ratio: 0.02 } },
    { layers: "fc", activations: "swap", activation_options: { least_bytes: 5 } },
  ];
  const coded = one(overrides, "fc", "codec", "int8");
  expect(coded.some((each) => each.codec_options)).toBe(false);
  expect(coded.some((each) => each.activation_options)).toBe(true);
  expect(one(coded, "fc", "activations", null)).toEqual([{ layers: "fc", codec: "int8" }]);
});

test("another unit does not keep the old one's size", () => {
  const sized = one([], "fc", "size", 7);
  expect(one(sized, "fc", "unit", "bucket")).toEqual([{ layers: "fc", unit: "bucket" }]);
});

test("a name is matched as it is", () => {
  expect(one([], "a[0]*", "codec", "fp16")[0]?.layers).toBe("a[[]0][*]");
  expect(byHand(one([], "a[0]*", "codec", "fp16"), only("a[0]*"))).toBe(0);
  for (const row of rows) expect(meant(only(row.layer), rows)).toEqual([row]);
});

test("what was chosen a moment ago is known before the plan says it", () => {
  const overrides = one(choose([], rows, linear, "codec", "fp16"), "fc", "codec", "fp32");
  expect(pending(overrides, { layer: "fc", kind: "Linear" }, "codec")).toBe("fp32");
  expect(pending(overrides, { layer: "out", kind: "Linear" }, "codec")).toBe("fp16");
  expect(pending(overrides, { layer: "out", kind: "Linear" }, "rank")).toBeUndefined();
  expect(pending(overrides, { layer: "conv", kind: "Conv2d" }, "codec")).toBeUndefined();
});

test("an override is said in one phrase", () => {
  expect(phrase({ layers: "*", kind: "Linear", codec: "fp16", rank: null })).toBe(
    "Linear layers: codec fp16",
  );
  expect(phrase({ layers: "fc*", exchange: "native", size: 5 })).toBe(
    "layers named fc*: exchange native, size 5",
  );
  expect(phrase({ codec: "int8", codec_options: { block: 64 } })).toBe(
    "all layers: codec int8, codec_options block 64",
  );
  expect(phrase({ strategy: "p3" })).toBe("all layers: as p3");
  expect(phrase(wide)).toBe("linear layers of at least 1,000 parameters: exchange ring-allreduce");
});

test("what is refused is found at its layer", () => {
  const overrides = [wide, { layers: "fc", unit: "layer", size: 3 }];
  const names = ["features", "features.0", "fc"];
  const found = refusals(
    [
      problem("layers.features.0.order.rank"),
      problem("layers.features.codec"),
      problem("overrides.1.size"),
      problem("overrides.1"),
      problem("overrides.0.kind"),
      problem("overrides.7"),
      problem("servers.count"),
    ],
    names,
    overrides,
  );
  expect([...found.at].map(([layer, errors]) => [layer, errors.map((error) => error.field)])).toEqual([
    ["features.0", ["layers.features.0.order.rank"]],
    ["features", ["layers.features.codec"]],
    ["fc", ["overrides.1.size", "overrides.1"]],
  ]);
  expect([...found.by]).toEqual([[0, [problem("overrides.0.kind")]]]);
  expect(found.elsewhere.map((error) => error.field)).toEqual(["overrides.7", "servers.count"]);
  expect(refusedChoice(problem("layers.features.0.order.rank"))).toBe("rank");
  expect(refusedChoice(problem("overrides.1.size"))).toBe("size");
  expect(refusedChoice(problem("overrides.1"))).toBeUndefined();
});

test("what a plan says is read axis by axis", () => {
  const plan = {
    layer: "fc",
    exchange: "ring-allreduce",
    order: { unit: "slice", size: 5, rank: "fifo" },
  } as LayerPlan;
  expect(chosen(plan, "exchange")).toBe("ring-allreduce");
  expect(chosen(plan, "size")).toBe(5);
  expect(chosen(plan, "update")).toBeNull();
  expect(axisOf("rank")).toBe("order.rank");
  expect(axisOf("codec")).toBe("codec");
  expect(axisOf("update")).toBeUndefined();
});
