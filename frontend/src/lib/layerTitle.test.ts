import { expect, test } from "vitest";
import { layerTitle } from "./layerTitle";

test("a name that is only a number says what the layer is", () => {
  expect(layerTitle({ layer: "4", kind: "Conv2d" })).toBe("4 (Conv2d)");
  expect(layerTitle({ layer: "0.12", kind: "Linear" })).toBe("0.12 (Linear)");
  expect(layerTitle({ layer: "4", kind: "" })).toBe("4");
});

test("other names stay, and the root has one", () => {
  expect(layerTitle({ layer: "features.0", kind: "Conv2d" })).toBe("features.0");
  expect(layerTitle({ layer: "fc6", kind: "Linear" })).toBe("fc6");
  expect(layerTitle({ layer: "", kind: "Linear" })).toBe("(root)");
});
