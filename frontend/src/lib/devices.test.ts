import { expect, test } from "vitest";
import type { Device } from "../api/types";
import { kinds, needs } from "./devices";

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
