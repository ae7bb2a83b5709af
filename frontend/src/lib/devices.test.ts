import { expect, test } from "vitest";
import type { ClusterNode, Device, Maintenance } from "../api/types";
import { addressWords, drainsOf, freeWords, keptBy, kinds, needs, outOfUseWords } from "./devices";

const device = (name: string, job_id: string | null = null) =>
  ({ name, kind: name.split(":")[0], job_id }) as Device;

test("devices stand by kind, GPUs first, with how many are free", () => {
  const found = kinds([device("cpu:0", "a"), device("rehearsal:0"), device("cpu:1"), device("cuda:0", "a")]);
  expect(found.map(({ kind, devices, free }) => [kind, devices.length, free])).toEqual([
    ["cuda", 1, 0],
    ["cpu", 2, 1],
    ["rehearsal", 1, 1],
  ]);
});

test("a device in maintenance is not free, and one that will be is", () => {
  const drained = (drained_at: string) => ({ ...device("cpu:0"), drained_at });
  const found = kinds([drained("2020-01-01T00:00:00Z"), drained("2999-01-01T00:00:00Z"), device("cpu:2")]);
  expect(found.map(({ free }) => free)).toEqual([2]);
});

test("a kind that the page does not know is shown, too", () => {
  expect(kinds([device("tpu:0")])).toMatchObject([{ kind: "tpu", title: "tpu", free: 1 }]);
});

test("what a job needs is said in words", () => {
  expect(needs({ kind: "cpu", devices: 2 })).toBe("2 CPU slots");
  expect(needs({ kind: "rehearsal", devices: 1 })).toBe("1 slot for rehearsals");
  expect(needs({ kind: null, devices: 9 })).toBe("nothing that this server has");
});

test("a node says what is free on it and how it is reached, and nothing of one that is away", () => {
  const devices = [device("cpu:0"), device("rehearsal:0"), device("cuda:0", "a")];
  const node: Pick<ClusterNode, "devices" | "free" | "state"> = {
    devices,
    free: { cpu: 1, cuda: 0, rehearsal: 1 },
    state: "up",
  };
  expect(freeWords(node)).toBe("Free: 0 of 1 GPUs, 1 of 1 CPU slots, 1 of 1 slots for rehearsals.");
  expect(freeWords({ ...node, state: "away" })).toBe("Nothing of it is free while it is away.");
  const interfaces = [
    { name: "eno1", address: "192.0.2.7", rate_bps: 25e9 },
    { name: "veth0", address: "10.77.0.1", rate_bps: null },
    { name: "ifb0", address: null, rate_bps: null },
    { name: "lo", address: "127.0.0.1", rate_bps: null },
  ];
  expect(addressWords({ address: "192.0.2.7", interfaces })).toBe(
    "eno1 192.0.2.7, 25 Gbit/s; veth0 10.77.0.1, rate not told",
  );
  expect(addressWords({ address: "192.0.2.8", interfaces: interfaces.slice(1) })).toBe(
    "192.0.2.8 (veth0 10.77.0.1, rate not told)",
  );
  expect(addressWords({ address: null, interfaces: interfaces.slice(3) })).toBe(
    "only this machine reaches it",
  );
});

test("a node that is drained says so, and who gives devices back hears of other maintenance", () => {
  const [past, future] = ["2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"];
  const of = (id: number, more: Partial<Maintenance>) =>
    ({ id, devices: null, node: "a", server: "s", begins_at: past, ends_at: null, ...more }) as Maintenance;
  const [drain, later, one] = [
    of(1, {}),
    of(2, { begins_at: future }),
    of(3, { devices: ["cpu:0"], who: "ada" }),
  ];
  const [other, elsewhere] = [of(4, { devices: ["cpu:0", "cpu:1"] }), of(5, { node: "b", server: "t" })];
  const all = [drain, later, elsewhere];
  expect(drainsOf({ name: "a", servers: ["s"] }, all)).toEqual([drain]);
  expect(outOfUseWords(one)).toMatch(/^Out of use since .*, until it is given back, by ada\.$/);
  expect(keptBy(drain, all)).toBe("");
  expect(keptBy(one, [...all, one])).toMatch(/^all devices since /);
  expect(keptBy(one, [one, other])).toMatch(/^cpu:0, cpu:1 since /);
  expect(keptBy(one, [of(6, { devices: ["cpu:9"] })])).toBe("");
  const ofServer = of(7, { node: null, devices: ["cpu:0"] });
  expect(keptBy(ofServer, [drain])).toMatch(/^all devices since /);
  expect(keptBy(drain, [ofServer])).toMatch(/^cpu:0 since /);
  expect(keptBy(of(8, { node: null, server: "t" }), [ofServer, drain])).toBe("");
});
