import { describe, expect, it } from "vitest";
import { sectionSummary } from "./sectionSummary";

const spec = {
  model: { name: null, entrypoint: "mine:build" },
  data: { name: "digits", entrypoint: null },
  cluster: { workers: 1, device: "cpu" },
  network: { rate: "300Mbit", hosts: 4 },
  faults: { stragglers: [{ worker: 1 }, { worker: 3 }] },
  input: { where: "processes", processes: 3 },
  training: { steps: null, epochs: 5, global_batch: 32 },
};

describe("what a closed section holds", () => {
  it.each([
    ["model", "mine:build"],
    ["data", "digits"],
    ["cluster", "1 worker, cpu"],
    ["network", "300Mbit, lab of 4 hosts"],
    ["input", "3 processes"],
    ["training", "5 epochs, batch 32"],
    ["faults", "workers 1, 3 slowed"],
    ["retry", ""],
  ])("%s: %s", (name, text) => expect(sectionSummary(name, spec)).toBe(text));

  it("says of faults how many there are", () => {
    expect(sectionSummary("faults", { faults: { stragglers: [] } })).toBe("none");
    expect(sectionSummary("faults", { faults: { stragglers: [{ worker: 0 }] } })).toBe("worker 0 slowed");
  });

  it("says that a network without a rate has no limit", () => {
    expect(sectionSummary("network", { network: { rate: null, hosts: null } })).toBe("no limit");
  });
});
