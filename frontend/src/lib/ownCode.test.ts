import { expect, test } from "vitest";
import { entered, entryProblem, fromFile, INCOMPLETE, inFolder, ownCode } from "./ownCode";

const ours = { name: "mlp", entrypoint: null, directory: null, options: {} };
const mine = { name: null, entrypoint: "net:build", directory: "/home/me", options: {} };

test("our models and data run nobody's code", () => {
  expect(ownCode({ model: ours, data: ours })).toBeNull();
  expect(ownCode({})).toBeNull();
});

test("every change of what runs is another text, and of nothing else", () => {
  const code = ownCode({ model: mine, data: ours, name: "a" });
  expect(code).toBe(ownCode({ model: mine, data: ours, name: "b", training: { steps: 3 } }));
  for (const model of [
    { ...mine, entrypoint: "net:buil" },
    { ...mine, directory: "/" },
    { ...mine, options: { a: 1 } },
  ])
    expect(ownCode({ model, data: ours })).not.toBe(code);
  expect(ownCode({ model: mine, data: mine })).not.toBe(code);
});

test("an entry point without a name is not complete", () => {
  expect(ownCode({ model: { ...mine, entrypoint: "" }, data: ours })).toBe(INCOMPLETE);
});

test("an entry point may be written with its file", () => {
  const found = { directory: "/home/me/my nets", entrypoint: "mine:build" };
  expect(fromFile("/home/me/my nets/mine.py:build")).toEqual(found);
  for (const text of ["mine:build", "/home/me/mine.py", "/home/me/mine.py:", "mine.py:build"])
    expect(fromFile(text)).toBeNull();
});

test("an entry point that names no function is told how it is written", () => {
  for (const text of ["", "net:build", "nets.mine:build", "/home/me/mine.py:build"])
    expect(entryProblem(text)).toBeNull();
  for (const text of ["/home/me/mine.py", "mine.py", "net", "net:", ":build", "net: build"])
    expect(entryProblem(text)).toContain("module:function, as net:build, or with its file");
});

test("a file below the directory is what the path of both would be", () => {
  const found = { directory: "/home/me", entrypoint: "net:build" };
  expect(inFolder("net.py:build", "/home/me")).toEqual(found);
  expect(inFolder("./net.py:build", "/home/me/")).toEqual(found);
  expect(inFolder("nets/net.py:build", "/home/me")).toEqual({ ...found, directory: "/home/me/nets" });
  expect(inFolder("net.py:build", "/")).toEqual({ ...found, directory: "/" });
  for (const [text, directory] of [
    ["net:build", "/home/me"],
    ["net.py:build", ""],
    ["net.py", "/home/me"],
    ["/home/me/net.py:build", "/home/me"],
  ] as const)
    expect(inFolder(text, directory)).toBeNull();
});

test("data lie in the folder of the model, and the model in that of the data, where nobody says otherwise", () => {
  const found = { directory: "/home/me", entrypoint: "samples:load" };
  for (const text of ["samples:load", "samples.py:load", "/home/me/samples.py:load"])
    expect(entered(text, "", "/home/me")).toEqual(found);
  expect(entered("samples.py:load", "/data", "/home/me")).toEqual({ ...found, directory: "/data" });
  expect(entered("samples:load", "/data", "/home/me")).toBeNull();
  for (const text of ["", "samples", "samples:load"]) expect(entered(text, "")).toBeNull();
  expect(entered("", "", "/home/me")).toBeNull();
});

test("a file without its directory is told the corrected value", () => {
  expect(entryProblem("net.py:build")).toBe(
    "Write net:build, and the folder that holds net.py as directory.",
  );
  expect(entryProblem("net.py:build", "/home/me")).toBeNull();
});
