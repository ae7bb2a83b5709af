import { expect, test } from "vitest";
import type { Job, Summary } from "../api/types";
import { caveats, compareRows, networkText } from "./compareRows";

const job = (name: string, change: Partial<Job> = {}) =>
  ({
    id: `id of ${name}`,
    name,
    planned_by: name,
    workers: 2,
    rehearsed: null,
    slowed: null,
    rate_bps: 100_000_000,
    fastest_bps: 100_000_000,
    hosts: null,
    state: "succeeded",
    ...change,
  }) as Job;

const summary = (change: Partial<Summary> = {}) =>
  ({
    iteration_ms: 41.237,
    compute_ms: 20,
    exposed_ms: null,
    compute_worker: null,
    exposed_worker: null,
    input_ms: 3.21,
    processors: { busy: 0.412, own: 0.384 },
    samples_per_s: 812.4,
    wire_bytes_per_step: 2048,
    counted_bytes_per_step: null,
    test_accuracy: 0.97,
    time_to_target_s: null,
    speed_up: null,
    convergence_speed_up: null,
    ...change,
  }) as Summary;

const faster = {
  baseline_id: "a",
  baseline_name: "parameter-server",
  value: 1.3242,
  low: 1.2,
  high: 1.45,
  certainty: "certain" as const,
  kind: "strong" as const,
  comparable: true,
  why_not: "another job ran on the machine",
};

const row = (rows: { label: string; values: string[] }[], label: string) =>
  rows.find((found) => found.label === label)?.values;

test("numbers stand by job, the first one is what the others are compared with", () => {
  const rows = compareRows([job("parameter-server"), job("p3")], [summary(), summary({ speed_up: faster })]);
  expect(row(rows, "iteration")).toEqual(["41.24 ms", "41.24 ms"]);
  expect(row(rows, "input")).toEqual(["3.21 ms", "3.21 ms"]);
  expect(row(rows, "exposed")).toEqual(["–", "–"]);
  const straggler = summary({ compute_worker: 1, exposed_ms: 30, exposed_worker: 0 });
  expect(row(compareRows([job("p3")], [straggler]), "exposed")).toEqual(["30.00 ms, worker 0"]);
  expect(row(rows, "on the wire")).toEqual(["2.0 KiB/step", "2.0 KiB/step"]);
  const ddp = summary({ wire_bytes_per_step: null, counted_bytes_per_step: 3072 });
  expect(row(compareRows([job("ddp")], [ddp]), "on the wire")).toEqual(["3.0 KiB/step (counted)"]);
  expect(row(rows, "speed-up")).toEqual(["1", "1.32x"]);
  expect(row(rows, "95 %")).toEqual(["–", "1.20 to 1.45"]);
  expect(row(rows, "compared at")).toEqual(["–", "equal global batch (strong scaling)"]);
  expect(row(rows, "processors")?.[0]).toBe("41 % busy, 38 % by this job");
  expect(row(rows, "compute")).toBeUndefined();
});

test("the first job's own speed-up over a baseline of its own is not shown", () => {
  const rows = compareRows([job("p3")], [summary({ speed_up: faster })]);
  expect(row(rows, "speed-up")).toEqual(["1"]);
  expect(row(rows, "95 %")).toEqual(["–"]);
  expect(caveats([job("p3")], [summary({ speed_up: faster })])).toEqual([]);
});

test("what is still on its way is told from what there is not", () => {
  const rows = compareRows([job("a"), job("b")], [undefined, summary({ iteration_ms: null })]);
  expect(row(rows, "iteration")).toEqual(["…", "–"]);
  expect(row(rows, "workers")).toEqual(["2", "2"]);
});

test("workers that are slowed are named where there are some", () => {
  const label = "worker 1 slowed: computes 2x as long";
  const rows = compareRows([job("a"), job("b", { slowed: label })], [summary(), summary()]);
  expect(row(rows, "slowed")).toEqual(["–", label]);
  expect(row(compareRows([job("a")], [summary()]), "slowed")).toBeUndefined();
});

test("a rehearsal says what its compute times rest on, beside one that trains", () => {
  const label = "rehearsed: compute of P4000";
  const rows = compareRows([job("a"), job("b", { rehearsed: label })], [summary(), summary()]);
  expect(row(rows, "compute")).toEqual(["measured", label]);
});

test("the service's words on a comparison are kept as they are", () => {
  const refused = { ...faster, value: null, comparable: false, why_not: "workers: 1 here, 2 there" };
  const jobs = [job("a"), job("b"), job("c")];
  const found = caveats(jobs, [summary(), summary({ speed_up: refused }), summary()]);
  expect(found).toEqual([{ id: "id of b", name: "b", text: "workers: 1 here, 2 there" }]);
});

test("a limit says who keeps it", () => {
  expect(networkText({ rate_bps: null, fastest_bps: null, hosts: null })).toBe("not limited");
  expect(networkText({ rate_bps: 1e9, fastest_bps: 1e9, hosts: null })).toBe("1 Gbit/s (software-limited)");
  expect(networkText({ rate_bps: 1e9, fastest_bps: 1e9, hosts: 1 })).toBe("1 Gbit/s (1 host)");
  expect(networkText({ rate_bps: 15e7, fastest_bps: 6e8, hosts: 4 })).toBe(
    "150 Mbit/s to 600 Mbit/s (4 hosts)",
  );
});

test("every row that may have a dash says why", () => {
  const empty = summary({
    iteration_ms: null,
    compute_ms: null,
    samples_per_s: null,
    wire_bytes_per_step: null,
    test_accuracy: null,
  });
  for (const { label, values, none } of compareRows([job("ddp"), job("fsdp")], [empty, empty]))
    if (values.includes("–")) expect(none, label).toBeTruthy();
});
