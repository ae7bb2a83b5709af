import { expect, test } from "vitest";
import type { LayerPlan, PlanView } from "../api/types";
import { csvOf } from "./csv";
import { exchanged, planRows, wireHead } from "./planRow";

const layer = (plan: Partial<LayerPlan>) => exchanged({ layer: "fc", ...plan } as LayerPlan);
const plan = (mode: string) => ({ consistency: { mode } }) as PlanView;

test("a row says where its layer is, where not every worker has it", () => {
  expect(layer({ exchange: "ring-allreduce" })).toBe("ring-allreduce");
  expect(layer({ placement: "device", place: 0, exchange: "none" })).toBe("on device");
  expect(layer({ placement: "stage", place: 1, exchange: "none" })).toBe("stage 1");
  expect(layer({ placement: "stage", place: 0, exchange: "ring-allreduce" })).toBe("stage 0, ring-allreduce");
});

test("bytes of workers that average are those of an average", () => {
  expect(wireHead(plan("every-step"))).toBe("Wire/step");
  expect(wireHead(plan("average"))).toBe("Wire/average");
});

test("a plan is taken along with every layer and numbers for bytes", () => {
  const row = { layer: "4", kind: "Linear", parameters: 650, codec: "none", order: "priority", units: 2 };
  const rest = { payload: "gradient", answer: "gradient", update: "sgd", barrier: "none", wire_bytes: 5216 };
  const layers = [{ row: { ...row, ...rest }, plan: { exchange: "ring-allreduce" } }];
  expect(csvOf(planRows({ ...plan("every-step"), layers } as unknown as PlanView)).split("\r\n")).toEqual([
    "layer,kind,parameters,exchange,codec,order,units,payload,answer,update,barrier,wire/step (bytes)",
    "4,Linear,650,ring-allreduce,none,priority,2,gradient,gradient,sgd,none,5216",
    "",
  ]);
});
