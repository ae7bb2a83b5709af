import { expect, test } from "vitest";
import { byReason } from "./refusals";

const refused = (name: string, reason: string) => ({ name, error: new Error(reason) });

test("who is refused for the same reason stands together, in the order of the first ones", () => {
  const members = [
    refused("p3", "no data"),
    refused("ddp", "no lab"),
    refused("p3 (slice_size=5)", "no data"),
  ];
  expect(byReason(members).map((group) => group.map(({ name }) => name))).toEqual([
    ["p3", "p3 (slice_size=5)"],
    ["ddp"],
  ]);
  expect(byReason([])).toEqual([]);
});
