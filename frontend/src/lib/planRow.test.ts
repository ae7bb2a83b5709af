import { expect, test } from "vitest";
import type { LayerPlan, PlanView } from "../api/types";
import { activationsOf, budgetTotals, exchanged, planRows, unitsHead, wireHead } from "./planRow";

const layer = (plan: Partial<LayerPlan>) => exchanged({ layer: "fc", ...plan } as LayerPlan);
const plan = (averages: boolean) => ({ averages }) as PlanView;

test("a row says where its layer is, where not every worker has it", () => {
  expect(layer({ exchange: "ring-allreduce" })).toBe("ring-allreduce");
  expect(layer({ placement: "device", place: 0, exchange: "none" })).toBe("on device");
  expect(layer({ placement: "stage", place: 1, exchange: "none" })).toBe("stage 1");
  expect(layer({ placement: "stage", place: 0, exchange: "ring-allreduce" })).toBe("stage 0, ring-allreduce");
});

test("bytes of workers that average are those of an average", () => {
  expect(wireHead(plan(false))).toBe("Wire/step");
  expect(wireHead(plan(true))).toBe("Wire/average");
});

test("units that several layers share are said to be shared", () => {
  const of = (units: number, each: number[]) =>
    unitsHead({ units, layers: each.map((own) => ({ row: { units: own } })) } as unknown as PlanView);
  expect(of(3, [1, 2, 3])).toBe("Units, shared");
  expect(of(6, [1, 2, 3])).toBe("Units");
});

test("a plan is taken along layer by layer, in bytes", () => {
  const row = {
    layer: "fc",
    kind: "Linear",
    parameters: 650,
    units: 2,
    wire_bytes: 5200,
    wire_exact: false,
    codec: "fp32",
  };
  const found = {
    ...plan(true),
    layers: [{ row, plan: { exchange: "ring-allreduce" } }],
  } as unknown as PlanView;
  const [head, first] = planRows(found);
  expect(head?.slice(-2)).toEqual(["on the wire (B/average)", "at most"]);
  expect([first?.[2], first?.[3], ...(first?.slice(-2) ?? [])]).toEqual([650, "ring-allreduce", 5200, "yes"]);
});

test("a plan says what a budget of memory came to, and why", () => {
  const memory = { budget: 2 ** 31, peak: 2 ** 30, kept: 2 ** 32, pass_ns: 200, extra_ns: 50 };
  expect(budgetTotals({ memory } as PlanView).map(([, value]) => value)).toEqual([
    "2.0 GiB",
    "1.0 GiB",
    "25.0 %",
  ]);
  expect(budgetTotals({ memory: null } as PlanView)).toEqual([]);
  const row = (activations: string, activations_why: string) =>
    activationsOf({ activations, activations_why } as PlanView["layers"][number]["row"]);
  expect(row("swap", "2 MiB leave")).toBe("swap");
  expect(row("", "there is room")).toBe("keep");
  expect(row("", "")).toBe("");
});
