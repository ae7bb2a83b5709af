import { expect, test } from "vitest";
import { append, type LogText } from "./logText";

const EMPTY: LogText = { text: "", bytes: 0, skipped: 0 };

test("pieces are put together, in bytes and not in characters", () => {
  expect(append(append(EMPTY, "Größe\n"), "3 µs\n")).toEqual({
    text: "Größe\n3 µs\n",
    bytes: 14,
    skipped: 0,
  });
});

test("beyond the limit the oldest lines go, and how much of it is known", () => {
  const log = append({ text: "one\ntwo\nthree\n", bytes: 14, skipped: 100 }, "four\n", 12);
  expect(log).toEqual({ text: "three\nfour\n", bytes: 11, skipped: 108 });
});

test("a line that begins just at the limit stays", () => {
  expect(append(EMPTY, "one\ntwo\n", 4)).toEqual({ text: "two\n", bytes: 4, skipped: 4 });
});

test("a line without end is cut between characters", () => {
  const log = append(EMPTY, "µµµµ", 3);
  expect(log).toEqual({ text: "µ", bytes: 2, skipped: 6 });
});
