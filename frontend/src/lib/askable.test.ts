import { expect, test } from "vitest";
import type { JobSpec, PlanView } from "../api/types";
import { askable } from "./askable";

const plan = { peer: null, wire_bytes_per_step: 100 } as PlanView;
const spec = { fidelity: "train" } as JobSpec;
const names = (...of: Parameters<typeof askable>) => askable(...of).map(({ name }) => name);

test("only what has an answer is asked", () => {
  expect(names(plan, spec)).toEqual(["memory", "batch", "codecs"]);
  expect(names({ ...plan, wire_bytes_per_step: 0 }, spec)).toEqual(["memory", "batch"]);
  expect(names(plan, { ...spec, fidelity: "rehearse" })).toEqual(["codecs"]);
  expect(names({ ...plan, peer: "ddp" }, spec)).toEqual([]);
});
