import { expect, test } from "vitest";
import { errorAt, errorWithin, hasErrorBelow } from "./errors";
import { fill, initialValue, isEmptyObject, type JsonSchema, resolve, setAt, withChoices } from "./schema";

const root: JsonSchema = {
  $defs: {
    Cluster: {
      type: "object",
      description: "What the job runs on.",
      properties: {
        workers: { type: "integer", default: 1 },
        device: { type: "string", enum: ["auto", "cpu"], default: "auto" },
      },
    },
  },
  type: "object",
  properties: {
    name: { type: "string" },
    cluster: { $ref: "#/$defs/Cluster", default: { workers: 2 }, description: "Where." },
    steps: { anyOf: [{ type: "integer" }, { type: "null" }], default: null },
    size: { anyOf: [{ type: "integer" }, { const: "auto", type: "string" }], default: "auto" },
    options: { type: "object", additionalProperties: true },
    groups: { type: "array", items: { $ref: "#/$defs/Cluster" }, default: [] },
  },
};
const property = (name: string) => root.properties?.[name] ?? {};

test("a form starts with the schema's defaults", () => {
  expect(initialValue(root, root)).toEqual({
    name: "",
    cluster: { workers: 2, device: "auto" },
    steps: null,
    size: "auto",
    options: {},
    groups: [],
  });
});

test("references and 'or null' are seen through", () => {
  expect(resolve(property("cluster"), root)).toMatchObject({
    kind: "object",
    description: "Where.",
    nullable: false,
  });
  expect(resolve(property("steps"), root)).toMatchObject({
    kind: "integer",
    nullable: true,
    default: null,
    empty: null,
  });
});

test("a word in a number's place is what an empty field says", () => {
  expect(resolve(property("size"), root)).toMatchObject({ kind: "integer", nullable: true, empty: "auto" });
  expect(resolve(property("options"), root).kind).toBe("map");
});

test("a reference to nothing is an error", () => {
  expect(() => resolve({ $ref: "#/$defs/Nothing" }, root)).toThrow("Nothing");
});

test("a specification is laid over the defaults, and nothing of it is lost", () => {
  const known = { name: "a", cluster: { workers: 4 }, options: { momentum: 0.9 }, left_over: 1 };
  expect(fill(initialValue(root, root), known)).toEqual({
    left_over: 1,
    name: "a",
    cluster: { workers: 4, device: "auto" },
    steps: null,
    size: "auto",
    options: { momentum: 0.9 },
    groups: [],
  });
});

test("a field is replaced at its path, the old value stays as it was", () => {
  const value = { cluster: { workers: 1, device: "cpu" }, groups: [{ workers: 1 }, { workers: 2 }] };
  expect(setAt(value, "cluster.workers", 3)).toEqual({ ...value, cluster: { workers: 3, device: "cpu" } });
  expect(setAt(value, "groups.1.workers", 5)).toEqual({ ...value, groups: [{ workers: 1 }, { workers: 5 }] });
  expect(value.cluster.workers).toBe(1);
});

test("errors are found at their fields", () => {
  const errors = [
    { field: "cluster.workers", value: 0, rule: "a job needs at least one worker", remedy: "Use 1 or more" },
  ];
  expect(errorAt(errors, "cluster.workers")).toBe("A job needs at least one worker. Use 1 or more.");
  expect(errorAt(errors, "cluster")).toBeUndefined();
  expect(hasErrorBelow(errors, "cluster")).toBe(true);
  expect(hasErrorBelow(errors, "clusters")).toBe(false);
  expect(errorWithin(errors, "cluster")).toBe("workers: A job needs at least one worker. Use 1 or more.");
  expect(errorWithin(errors, "cluster.workers")).toBe(errorAt(errors, "cluster.workers"));
  expect(errorWithin(errors, "clusters")).toBeUndefined();
});

test("a field is a choice where the service says what it may be", () => {
  const where: JsonSchema = { type: "string", default: "cpu" };
  const top: JsonSchema = { $defs: { Input: { type: "object", properties: { where, prefetch: {} } } } };
  const input = { $ref: "#/$defs/Input" };
  const chosen = withChoices(input, top, "where", ["cpu", "processes"]).properties ?? {};
  expect(Object.keys(chosen)).toEqual(["where", "prefetch"]);
  expect(resolve(chosen.where ?? {}, top)).toMatchObject({ kind: "choice", default: "cpu" });
  expect(chosen.where?.enum).toEqual(["cpu", "processes"]);
  expect(withChoices(input, top, "where", [])).toBe(input);
  expect(withChoices(input, top, "elsewhere", ["cpu"])).toBe(input);
});

test("an object whose fields were all emptied is left out", () => {
  expect(isEmptyObject({ job: "", step: null })).toBe(true);
  expect(isEmptyObject({ job: "", step: 5 })).toBe(false);
  expect(isEmptyObject(null)).toBe(false);
});
