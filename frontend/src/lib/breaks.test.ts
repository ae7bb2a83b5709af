import { expect, test } from "vitest";
import { partsOf } from "./breaks";

test("a long name may go on behind its signs, and nowhere else", () => {
  expect(partsOf("shop/nets.deep_vgg:build")).toEqual(["shop/", "nets.", "deep_", "vgg:", "build"]);
  expect(partsOf("a__b::c")).toEqual(["a__", "b::", "c"]);
  expect(partsOf("vgg-small")).toEqual(["vgg-small"]);
  expect(partsOf("shop/nets.deep_vgg:build").join("")).toBe("shop/nets.deep_vgg:build");
});
