import { afterEach, expect, test, vi } from "vitest";
import { type Draft, draftKeeper, draftKey, draftText, readDraft, tabMemory } from "./draft";

const begun: Draft = {
  spec: { name: "", cluster: { workers: 2 }, secrets: [] },
  form: { members: [{ strategy: "p3" }], rates: [], rounds: 4 },
  racing: false,
};
const typed: Draft = { ...begun, spec: { ...begun.spec, name: "mine" }, racing: true };

afterEach(() => vi.unstubAllGlobals());

test("What was typed comes back as it was, and a form that nobody changed is no draft", () => {
  expect(draftText(structuredClone(begun), begun)).toBeNull();
  expect(readDraft(draftText(typed, begun))).toEqual(typed);
  const rates = { ...begun, form: { ...begun.form, rates: ["1Gbit"] } };
  expect(readDraft(draftText(rates, begun))?.form.rates).toEqual(["1Gbit"]);
});

test("What the form could not show is no draft", () => {
  const broken = [null, "", "{", "[]", "1", '{"spec": {}}', '{"spec": {}, "form": {"members": 1}}'];
  expect(broken.map(readDraft)).toEqual(broken.map(() => undefined));
});

test("Each address and each person has a draft of their own", () => {
  const keys = [
    draftKey(null, ""),
    draftKey(null, "?start=own"),
    draftKey("ada", ""),
    draftKey("ada", "?from=1"),
  ];
  expect(new Set(keys).size).toBe(keys.length);
});

test("A draft stays in the tab until it is forgotten, and a browser that forbids it is none", () => {
  const kept = new Map<string, string>();
  vi.stubGlobal("sessionStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, text: string) => kept.set(key, text),
    removeItem: (key: string) => kept.delete(key),
  });
  const key = draftKey("ada", "?start=own");
  tabMemory.save(key, draftText(typed, begun));
  expect(readDraft(tabMemory.load(key))).toEqual(typed);
  tabMemory.save(key, null);
  expect(tabMemory.load(key)).toBeNull();
  // A file that is opened and only looked at takes nothing away; one that is changed stands in the draft's place.
  draftKeeper(key, begun, false).keep(typed);
  const file = draftKeeper(key, { ...begun, racing: true }, true);
  expect(file.keep({ ...begun, racing: true })).toBe(false);
  file.drop();
  expect(readDraft(tabMemory.load(key))).toEqual(typed);
  expect(file.keep(begun)).toBe(true);
  expect(readDraft(tabMemory.load(key))).toEqual(begun);
  file.drop();
  expect(tabMemory.load(key)).toBeNull();
  vi.stubGlobal("sessionStorage", undefined);
  tabMemory.save(key, "{}");
  expect(tabMemory.load(key)).toBeNull();
});
