import { describe, expect, it } from "vitest";
import type { JobSummary, RaceSummary } from "../api/types";
import { landing } from "./landing";

const race = (id: string, decided: boolean, state: RaceSummary["state"] = "finished") =>
  ({ id, decided, state }) as RaceSummary;
const job = (id: string, state: JobSummary["state"] = "queued", started_at: string | null = null) =>
  ({ id, state, started_at }) as JobSummary;
const group = (...ids: string[]) => ({ key: "", label: "", jobs: ids.map((id) => job(id)) });

describe("landing", () => {
  it("goes to the newest race with a verdict, before newer ones without", () => {
    const races = [race("new", false), race("second", true), race("first", true)];
    expect(landing(races, [group("a", "b")])).toEqual({ page: "race", id: "second" });
  });

  it("goes to the newest race where none has a verdict yet", () => {
    expect(landing([race("new", false), race("old", false)], [])).toEqual({ page: "race", id: "new" });
  });

  it("goes past a cancelled race without a verdict to an older one, or to jobs side by side", () => {
    const cancelled = race("cancelled", false, "cancelled");
    expect(landing([cancelled, race("old", false)], [])).toEqual({ page: "race", id: "old" });
    expect(landing([cancelled], [group("a", "b")])).toEqual({ page: "side by side" });
  });

  it("goes to a cancelled race where nothing else can be seen, and to one with a verdict before all others", () => {
    const unseen = { ...group(), jobs: [job("a", "cancelled"), job("b", "cancelled")] };
    expect(landing([race("only", false, "cancelled")], [unseen])).toEqual({ page: "race", id: "only" });
    const races = [race("runs", false, "running"), race("verdict", true, "cancelled")];
    expect(landing(races, [group("a", "b")])).toEqual({ page: "race", id: "verdict" });
  });

  it("goes to two jobs side by side where there is no race", () => {
    expect(landing([], [group("a"), group("b", "c")])).toEqual({ page: "side by side" });
  });

  it("shows the start page where there is nothing to compare", () => {
    expect(landing([], [])).toEqual({ page: "start" });
    expect(landing([], [group("alone")])).toEqual({ page: "start" });
  });
});
