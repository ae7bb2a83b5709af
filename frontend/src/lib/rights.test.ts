import { expect, test } from "vitest";
import { may, mayChange, ROLES, upTo } from "./rights";

test("a role may what those before it may", () => {
  expect(ROLES.filter((role) => may(role, "viewer"))).toEqual(["viewer", "member", "admin"]);
  expect(ROLES.filter((role) => may(role, "member"))).toEqual(["member", "admin"]);
  expect(ROLES.filter((role) => may(role, "admin"))).toEqual(["admin"]);
});

test("a token may be given what its maker may", () => {
  expect(upTo("viewer")).toEqual(["viewer"]);
  expect(upTo("member")).toEqual(["viewer", "member"]);
  expect(upTo("admin")).toEqual(["viewer", "member", "admin"]);
});

test("a member changes what is their own or nobody's, an admin everything, a viewer nothing", () => {
  const changes = (role: "viewer" | "member" | "admin") =>
    ["ada", "bob", null].map((owner) => mayChange({ user: "ada", role }, owner));
  expect(changes("viewer")).toEqual([false, false, false]);
  expect(changes("member")).toEqual([true, false, true]);
  expect(changes("admin")).toEqual([true, true, true]);
});
