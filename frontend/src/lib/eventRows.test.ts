import { expect, test } from "vitest";
import type { Events } from "../api/types";
import { csvOf } from "./csv";
import { eventAt, eventRows } from "./eventRows";

test("events are numbers with their units in the head; what an event has not stays empty", () => {
  const events = {
    parties: ["worker 0", "server 0"],
    layers: ["4"],
    layer_names: ["4 (Conv2d)"],
    buckets: {},
    kind: ["send", "step_end"],
    worker: [0, 1],
    start_ns: [2_234_567, 5_000_000],
    end_ns: [3_234_568, 5_000_000],
    layer: [0, -1],
    unit: [2, -1],
    peer: [1, -1],
    queued_ns: [2_000_000, -1],
    priority: [-3, 0],
    bytes: [4096, 0],
    clock: ["host", "cuda"],
  } as unknown as Events;
  expect(csvOf(eventRows([events], 1_000_000)).split("\r\n")).toEqual([
    "at (ms),took (ms),process,event,layer,unit,other side,queued (ms),priority,bytes,clock",
    "1.234567,1.000001,worker 0,send,4,2,server 0,0.234567,-3,4096,host",
    "4,0,server 0,step end,,,,,,,cuda",
    "",
  ]);
});

test("what a unit of several layers is about are all of them", () => {
  const events = {
    parties: [],
    layers: ["conv1", "fc2"],
    layer_names: ["conv1", "fc2"],
    buckets: { 3: "bucket of conv1, fc2" },
    kind: ["send", "send", "forward"],
    worker: [0, 0, 0],
    start_ns: [0, 0, 0],
    end_ns: [1, 1, 1],
    layer: [0, 0, 0],
    unit: [3, 2, -1],
    peer: [],
    queued_ns: [],
    priority: [],
    bytes: [],
    clock: [],
  } as unknown as Events;
  const names = [0, 1, 2].map((at) => eventAt(events, at).layer_name);
  expect(names).toEqual(["bucket of conv1, fc2", "conv1", "conv1"]);
});
