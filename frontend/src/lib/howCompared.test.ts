import { expect, test } from "vitest";
import type { RaceView } from "../api/types";
import { howCompared } from "./howCompared";

const race = (joined_s: number | null) =>
  ({
    spec: { rounds: 4 },
    rankings: [1, 2].map(() => ({
      standings: [
        { name: "p3", joined_s: null },
        { name: "ddp", joined_s },
      ],
    })),
  }) as unknown as RaceView;

test("who joined later is left out of what is said of all rounds", () => {
  expect(howCompared(race(null))).toMatch(/^In each of 4 rounds everybody runs once, .* the same rounds\.$/);
  const once = { ...race(null), spec: { rounds: 1 } } as unknown as RaceView;
  expect(howCompared(once)).toMatch(/^In one round everybody runs once/);
  expect(howCompared(race(90))).toContain("everybody but ddp runs once");
  expect(howCompared(race(90))).toContain("ddp joined later and ran the rounds that were over without");
});
