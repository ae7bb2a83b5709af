import { describe, expect, it } from "vitest";
import type { RaceSpec } from "../api/types";
import {
  againOf,
  asOneJob,
  chosen,
  differing,
  jobOf,
  jobsOf,
  nameOf,
  ofTheJob,
  raceOf,
  roundsOf,
  twins,
  USUAL_ROUNDS,
  withOwnHosts,
} from "./raceForm";

const p3 = { strategy: "p3", options: { slice_size: 500 } };
const spec = { name: "mine", baseline: "a job", network: { rate: null, hosts: 2 }, strategy: { name: "p3" } };
const form = { members: [p3, { strategy: "ddp" }], rates: ["100Mbit", "1Gbit"], rounds: 3 };

describe("a race's form", () => {
  it("keeps the options of those who stay when others come and go", () => {
    expect(chosen([p3, { strategy: "ddp" }], ["single", "p3"])).toEqual([p3, { strategy: "single" }]);
  });

  it("has one strategy several times, with other options, as long as each has a name of its own", () => {
    const wide = { ...p3, options: { slice_size: 9 } };
    const both = [p3, wide, { strategy: "ddp" }];
    expect(chosen(both, ["p3", "p3", "ddp", "single"])).toEqual([...both, { strategy: "single" }]);
    expect(chosen(both, ["ddp"])).toEqual([{ strategy: "ddp" }]);
    expect(twins(both)).toBeUndefined();
    expect(twins([...both, p3])).toBe("p3 (slice_size=500)");
    expect(
      twins([p3, { ...p3, name: "again" }, { ...p3, overrides: [{ layers: "fc*" } as never] }]),
    ).toBeUndefined();
    expect(nameOf({ ...p3, overrides: [{}, {}] as never })).toBe("p3 (slice_size=500, 2 overrides)");
    expect(nameOf({ strategy: "p3", overrides: [] })).toBe("p3 (no overrides)");
  });

  it("sends the options that are not their defaults, and those that nobody knows", () => {
    const defaults = { slice_size: "auto", sizes: [1, 2], where: "shared" };
    expect(differing({ ...defaults, sizes: [1, 2] }, defaults)).toEqual({});
    expect(differing({ ...defaults, sizes: [2], slice_size: 500, nope: null }, defaults)).toEqual({
      sizes: [2],
      slice_size: 500,
      nope: null,
    });
  });

  it("plans a member at the race's first rate, alone as races run, without a baseline", () => {
    expect(jobOf(spec, form, p3)).toEqual({
      name: "mine",
      baseline: null,
      cluster: { alone: true },
      network: { rate: "100Mbit", hosts: 2 },
      strategy: { name: "p3", options: { slice_size: 500 } },
    });
  });

  it("plans a member at the job's own rate where the race names none", () => {
    expect(jobOf(spec, { ...form, rates: [] }, p3).network).toEqual({ rate: null, hosts: 2 });
  });

  it("sends the job once, with who races", () => {
    expect(raceOf(spec, form)).toEqual({
      job: { ...spec, baseline: null, strategy: { name: "single", options: {} } },
      members: form.members,
      rates: form.rates,
      rounds: 3,
    });
  });

  it("fills in a race again, with what is to be changed", () => {
    const race = { job: spec, members: form.members, rates: ["100Mbit"], rounds: 5 } as unknown as RaceSpec;
    expect(againOf(race, {})).toEqual({
      job: spec,
      form: { members: form.members, rates: ["100Mbit"], rounds: 5 },
    });
    const changed = againOf(race, { rate: "900Mbit", rounds: 6, fidelity: "rehearse" });
    expect(changed.job.fidelity).toBe("rehearse");
    expect([changed.form.rates, changed.form.rounds]).toEqual([["900Mbit"], 6]);
  });

  it("keeps the name that a race was given", () => {
    const race = { name: "my race", job: spec, members: form.members } as unknown as RaceSpec;
    expect(againOf(race, {}).job.name).toBe("my race");
    expect(againOf({ ...race, name: null }, {}).job.name).toBe("mine");
  });

  it("keeps a race's name when it is raced again with something changed, and sends it", () => {
    const race = { name: "my race", job: spec, members: form.members, rounds: 5 } as unknown as RaceSpec;
    const { job, form: again } = againOf(race, {
      member: "ring-allreduce",
      rate: "4Gbit",
      fidelity: "rehearse",
    });
    expect(raceOf(job, again)).toMatchObject({
      job: { name: "my race", fidelity: "rehearse" },
      rates: ["4Gbit"],
    });
  });

  it("has the rounds that are asked for, else the race's, else the fewest that prove something", () => {
    const race = { job: spec, members: form.members, rounds: 5 } as unknown as RaceSpec;
    expect(againOf(race, { rounds: 1 }).form.rounds).toBe(1);
    expect(againOf(race, {}).form.rounds).toBe(5);
    const unsaid = { job: spec, members: form.members } as unknown as RaceSpec;
    expect(againOf(unsaid, {}).form.rounds).toBe(USUAL_ROUNDS);
  });

  it("has the usual number of rounds while the field is empty, and what is typed otherwise", () => {
    expect(["", 0, "-", 1, 7].map(roundsOf)).toEqual([USUAL_ROUNDS, USUAL_ROUNDS, USUAL_ROUNDS, 1, 7]);
  });

  it("lets one more race when a race is run again, with all who did", () => {
    const race = { job: spec, members: form.members } as unknown as RaceSpec;
    expect(againOf(race, { member: "ring-allreduce" }).form.members).toEqual([
      ...form.members,
      { strategy: "ring-allreduce" },
    ]);
    expect(againOf(race, { member: "ddp" }).form.members).toEqual(form.members);
  });

  it("keeps all that varies when a race is run again, and says it", () => {
    const sliced = { strategy: "p3", options: {}, overrides: [{ layers: "fc*" }], name: "wide" };
    const more = { workers: [2, 4], batches: [64], beside: true };
    const race = { job: spec, members: [sliced], rates: [], rounds: 3, ...more } as unknown as RaceSpec;
    const again = againOf(race, { rate: "1Gbit" });
    expect(raceOf(again.job, again.form)).toMatchObject({ ...more, members: [sliced], rates: ["1Gbit"] });
    const planned = jobOf(again.job, again.form, again.form.members[0] as (typeof form.members)[number]);
    expect(planned).toMatchObject({ overrides: [{ layers: "fc*" }], cluster: { workers: 2 } });
    expect(planned).toMatchObject({ training: { global_batch: 64 }, network: { rate: "1Gbit" } });
    expect(nameOf(sliced as never)).toBe("wide");
    expect(jobsOf(again.form)).toBe(
      "6 jobs: 1 strategy in 3 rounds, with 2, 4 workers, global batches of 64, beside other jobs",
    );
  });

  it("runs a race again under the one condition that is asked for", () => {
    const race = {
      job: spec,
      members: [p3],
      rates: ["1Gbit"],
      workers: [2, 4],
      batches: [64],
    } as unknown as RaceSpec;
    const { form: again } = againOf(race, { rate: "4Gbit", workers: 4, batch: 64 });
    expect([again.rates, again.workers, again.batches]).toEqual([["4Gbit"], [4], [64]]);
  });

  it("keeps every worker on a host of its own, but no other number of hosts", () => {
    const on = (workers: unknown, hosts: number | null) => ({ cluster: { workers }, network: { hosts } });
    expect(withOwnHosts(on(8, 4), form, 4)).toEqual(on(8, 8));
    expect(withOwnHosts(on(8, 2), form, 4)).toEqual(on(8, 2));
    expect(withOwnHosts(on(8, null), form, 4)).toEqual(on(8, null));
    expect(withOwnHosts(on(null, 4), form, 4)).toEqual(on(null, 4)); // being typed
    expect(withOwnHosts(on(4, 4), { ...form, workers: [2, 6] }, 4)).toEqual(on(4, 6));
  });

  it("is one job of the first who races, where its job's own strategy only stands for nobody", () => {
    const defaults = (strategy: string) => ({ of: strategy, slice_size: "auto" });
    const alone = (strategy: string, workers: number) => ({
      cluster: { workers },
      strategy: { name: strategy },
    });
    const members = [{ strategy: "single" }, { ...p3, overrides: [{ layers: "fc*" } as never] }];
    expect(asOneJob(alone("single", 2), { ...form, members }, defaults)).toEqual({
      cluster: { workers: 2 },
      strategy: { name: "p3", options: { of: "p3", slice_size: 500 } },
      overrides: [{ layers: "fc*" }],
    });
    for (const kept of [alone("ddp", 2), alone("single", 1)])
      expect(asOneJob(kept, form, defaults)).toBe(kept);
    const nobody = { ...form, members: [] };
    expect(asOneJob(alone("single", 2), nobody, defaults)).toEqual(alone("single", 2));
  });

  it("says how much it is, and who races with which options", () => {
    expect(jobsOf(form)).toBe("12 jobs: 2 strategies at 2 rates in 3 rounds");
    expect(jobsOf({ members: [p3], rates: [], rounds: 1 })).toBe("1 job: 1 strategy in 1 round");
    expect(form.members.map(nameOf)).toEqual(["p3 (slice_size=500)", "ddp"]);
  });

  it("says what is wrong with the job at the job's fields", () => {
    const errors = [{ field: "job.model.entrypoint" }, { field: "rates.0" }, { field: "jobs" }];
    expect(ofTheJob(errors).map(({ field }) => field)).toEqual(["model.entrypoint", "rates.0", "jobs"]);
  });
});
