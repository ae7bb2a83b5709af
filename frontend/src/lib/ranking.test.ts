import { expect, test } from "vitest";
import type { Ranking, Standing } from "../api/types";
import { csvOf } from "./csv";
import { limitSaid, rankingRows, refusedEverywhere } from "./ranking";

const standing = {
  rank: 2,
  tied: true,
  name: "p3 (slice_size=500)",
  limit: { kind: "port", sentence: "port: workers wait 58 % of the step; processors 41 % busy" },
  iteration_ms: 125.25,
  exposed_ms: 104.125,
  samples_per_s: 63.5,
  times_fastest: 1.375,
  low: 1.125,
  high: 1.625,
  unsure: false,
  missing: null,
  speed_up: 1.5,
  speed_up_low: 1.25,
  speed_up_high: 1.75,
  rounds: 3,
  port_busy: 0.9375,
  one_port_busy: 0.5,
  processors: { busy: 0.40625, own: 0.375 },
  out: null,
  remark: null,
} as Standing;

test("every figure of a ranking is a cell of its own, unrounded", () => {
  const out = {
    ...standing,
    rank: null,
    name: "ddp",
    limit: null,
    iteration_ms: null,
    port_busy: null,
    one_port_busy: null,
    processors: null,
    out: "no hosts, so none",
  };
  const lines = csvOf(rankingRows({ standings: [standing, out] } as unknown as Ranking)).split("\r\n");
  expect(lines[0]).toBe(
    "place,tied,strategy,limited by,iteration (ms),exposed (ms),samples/s,relative time," +
      '"relative time, low end of 95 %","relative time, high end of 95 %",too few rounds to tell,rounds missing to tell,' +
      'speed-up over the first that was named,"speed-up, low end of 95 %","speed-up, high end of 95 %",rounds,port busy (share),one port busy (share),' +
      "processors busy (share),processors by its job (share),what limits it,excluded because,remark",
  );
  expect(lines[1]).toBe(
    "2,yes,p3 (slice_size=500),port,125.25,104.125,63.5,1.375,1.125,1.625,no,,1.5,1.25,1.75,3,0.9375,0.5,0.40625,0.375," +
      '"port: workers wait 58 % of the step; processors 41 % busy",,',
  );
  expect(lines[2]).toBe(
    ',yes,ddp,,,104.125,63.5,1.375,1.125,1.625,no,,1.5,1.25,1.75,3,,,,,,"no hosts, so none",',
  );
});

test("what limits a member says where other programs had most of the processors", () => {
  const limit = { kind: "processors", sentence: "97 % busy, 40 % by this job", crowded: false } as const;
  expect(limitSaid(limit)).toBe("97 % busy, 40 % by this job");
  expect(limitSaid({ ...limit, crowded: true })).toMatch(
    /^97 % busy, 40 % by this job\. Other programs had more/,
  );
});

test("who is refused under every condition for one reason is said once", () => {
  const at = (value: string, reason: string, job_ids: string[] = []) =>
    ({
      standings: [
        { ...standing, job_ids },
        { member: 1, name: "ddp", out: `network.rate = ${value}: ${reason}`, job_ids },
      ],
    }) as unknown as Ranking;
  const rankings = [at("'2 Mbit/s'", "no pacing. Use a lab"), at("'8 Mbit/s'", "no pacing. Use a lab")];
  expect(refusedEverywhere(rankings)).toEqual([{ member: 1, name: "ddp", reason: "no pacing. Use a lab" }]);
  expect(refusedEverywhere(rankings.slice(1))).toEqual([]);
  expect(refusedEverywhere([...rankings, at("3", "too many")])).toEqual([]);
  expect(refusedEverywhere([at("1", "no", ["a job"]), at("2", "no", ["a job"])])).toEqual([]);
});
