import { describe, expect, it } from "vitest";
import { sectionSummary } from "./sectionSummary";

const spec = {
  model: { name: null, entrypoint: "mine:build" },
  data: { name: "digits", entrypoint: null },
  cluster: { workers: 1, device: "cpu" },
  network: { rate: "300Mbit", hosts: 4 },
  faults: { stragglers: [{ worker: 1 }, { worker: 3 }] },
  input: { where: "processes", processes: 3 },
  retry: { times: 0, backoff_s: 10 },
  checkpoint: { every_steps: 100, keep: 2 },
  evaluation: { every_epochs: 0.5, every_steps: null, at_end: true },
  telemetry: { updates: false },
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
    ["retry", "never"],
    ["checkpoint", "every 100 steps"],
    ["evaluation", "every 0.5 epochs"],
    ["telemetry", ""],
  ])("%s: %s", (name, text) => expect(sectionSummary(name, spec)).toBe(text));

  it("says of faults how many there are", () => {
    expect(sectionSummary("faults", { faults: { stragglers: [] } })).toBe("none");
    expect(sectionSummary("faults", { faults: { stragglers: [{ worker: 0 }] } })).toBe("worker 0 slowed");
  });

  it("says how often something is done, or when at all", () => {
    const evaluation = { every_epochs: null, every_steps: null, at_end: true };
    expect(sectionSummary("evaluation", { evaluation })).toBe("at the end");
    expect(sectionSummary("evaluation", { evaluation: { ...evaluation, at_end: false } })).toBe("never");
    expect(sectionSummary("evaluation", { evaluation: { ...evaluation, every_epochs: 1 } })).toBe(
      "every epoch",
    );
    expect(
      sectionSummary("evaluation", { evaluation: { ...evaluation, every_epochs: 1, every_steps: 20 } }),
    ).toBe("every 20 steps");
    expect(sectionSummary("checkpoint", { checkpoint: { every_steps: null, keep: 2 } })).toBe("none");
    expect(sectionSummary("checkpoint", { checkpoint: { every_steps: null, every_seconds: 60 } })).toBe(
      "every 60 seconds",
    );
    expect(sectionSummary("retry", { retry: { times: 3 } })).toBe("3 times");
  });

  it("says that a network without a rate has no limit", () => {
    expect(sectionSummary("network", { network: { rate: null, hosts: null } })).toBe("no limit");
  });
});
