import { expect, test } from "vitest";
import type { PayingView } from "../api/types";
import { called, payingRows, verdict } from "./payingRows";

const view: PayingView = {
  codecs: [
    { codec: "int8", mine: true, port_bytes: 2 ** 20, seconds: 0.002, below_bps: 2.5e9, why: "" },
    {
      codec: "dgc",
      mine: false,
      port_bytes: null,
      seconds: null,
      below_bps: null,
      why: "does not go with this job: it has the momentum of SGD",
    },
  ],
  text: "",
};

test("a codec pays below a rate, or does not, and why", () => {
  expect(view.codecs.map(verdict)).toEqual([
    "below 2.5 Gbit/s",
    "does not go with this job: it has the momentum of SGD",
  ]);
  expect(view.codecs.map(called)).toEqual(["int8 (this job's)", "dgc"]);
});

test("a file has a row for each codec", () => {
  const [head, first, second] = payingRows(view);
  expect(head).toHaveLength(6);
  expect(first).toEqual(["int8", "yes", 2 ** 20, 0.002, 2.5e9, ""]);
  expect(second?.slice(0, 5)).toEqual(["dgc", "", null, null, null]);
});
