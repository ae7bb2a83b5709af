import { expect, test } from "vitest";
import type { LayerPlan, Override } from "../api/types";
import { axisOf, byHand, choose, chosen, forget, refusals } from "./overrides";

const wide: Override = { kind: "linear", least_parameters: 1000, exchange: "ring-allreduce" };
const problem = (field: string) => ({ field, rule: "hangs", remedy: "Use fifo" });

test("a choice becomes an override of its layer, after all others", () => {
  const first = choose([wide], "fc", "codec", "fp16");
  expect(first).toEqual([wide, { layers: "fc", codec: "fp16" }]);
  const second = choose([...first, { layers: "*", depart: "when-ready" }], "fc", "rank", "fifo");
  expect(second).toEqual([
    wide,
    { layers: "*", depart: "when-ready" },
    { layers: "fc", codec: "fp16", rank: "fifo" },
  ]);
  expect(byHand(second, "fc")).toBe(2);
  expect(byHand(second, "conv")).toBe(-1);
});

test("a choice that is taken back leaves nothing behind", () => {
  const one = choose([], "fc", "codec", "fp16");
  const two = choose(one, "fc", "rank", "fifo");
  expect(choose(two, "fc", "rank", null)).toEqual([{ layers: "fc", codec: "fp16", rank: null }]);
  expect(choose(one, "fc", "codec", null)).toEqual([]);
  expect(forget([wide, ...two], "fc")).toEqual([wide]);
});

test("another unit does not keep the old one's size", () => {
  const sized = choose([], "fc", "size", 7);
  expect(choose(sized, "fc", "unit", "bucket")).toEqual([{ layers: "fc", size: null, unit: "bucket" }]);
});

test("a name is matched as it is", () => {
  expect(choose([], "a[0]*", "codec", "fp16")[0]?.layers).toBe("a[[]0][*]");
  expect(byHand(choose([], "a[0]*", "codec", "fp16"), "a[0]*")).toBe(0);
  expect(choose([], "", "codec", "fp16")[0]?.layers).toBe("");
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
  expect(found.elsewhere.map((error) => error.field)).toEqual(["overrides.0.kind", "servers.count"]);
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
