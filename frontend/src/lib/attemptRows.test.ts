import { expect, test } from "vitest";
import type { Job } from "../api/types";
import { attemptRows } from "./attemptRows";

test("an attempt's time is in seconds, not in words", () => {
  const attempt = {
    number: 1,
    id: "a",
    state: "ended",
    started_at: "2026-01-02T03:04:05.250Z",
    ended_at: "2026-01-02T03:06:07Z",
    parties: ["worker 0", "worker 1"],
    devices: ["cpu:0", "cpu:1"],
    message: null,
    reason: "finished",
    exit_code: null,
  } as unknown as Job["attempts"][number];
  const [head = [], row = []] = attemptRows([attempt]);
  const of = (name: string) => row[head.indexOf(name)];
  expect(of("took (s)")).toBe(121.75);
  expect(of("started")).toBe("2026-01-02T03:04:05.250Z");
  expect(of("devices")).toBe("cpu:0, cpu:1");
  expect(row).toHaveLength(head.length);
});
