import { expect, test } from "vitest";
import type { Delivery } from "../api/types";
import { fateOf, stateOf } from "./webhooks";

const SENT: Delivery = {
  id: 1,
  event: "job.ended",
  at: "2026-11-28T12:00:00Z",
  state: "delivered",
  tries: 1,
  tried_at: "2026-11-28T12:00:01Z",
  next_at: null,
  status: 204,
  trouble: null,
  body: {},
};

test("a message says what became of it", () => {
  expect(fateOf(SENT)).toBe("sent once; answered with 204");
  expect(fateOf({ ...SENT, tries: 0, status: null, next_at: SENT.at, state: "waiting" })).toBe(
    "not sent yet",
  );
  const failing = { ...SENT, state: "waiting" as const, tries: 2, status: 500, trouble: "no success" };
  expect(fateOf({ ...failing, next_at: SENT.at })).toMatch(/^sent 2 times; no success; again at /);
  expect(fateOf({ ...failing, state: "failed" })).toBe("sent 2 times; no success");
});

test("each state has a word of its own", () => {
  const words = (["delivered", "waiting", "failed"] as const).map((state) => stateOf({ state }).word);
  expect(new Set(words).size).toBe(3);
});
