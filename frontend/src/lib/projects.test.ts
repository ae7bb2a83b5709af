import { expect, test } from "vitest";
import type { Project } from "../api/types";
import { heldOf, projectRows, usedBy } from "./projects";

const project: Project = {
  name: "vision",
  weight: 2,
  cpu: 4,
  cuda: null,
  rehearsal: null,
  held: { cuda: 3 },
  used_s: { cuda: 5400, cpu: 0 },
  waiting: 1,
};

test("a project holds so many of what it may", () => {
  expect(heldOf(project)).toBe("3 GPUs, 0 of 4 CPU slots");
  expect(heldOf({ ...project, cpu: null, held: {} })).toBe("nothing");
});

test("what it has used is said in device hours, and in a file in seconds", () => {
  expect(usedBy(project)).toBe("1.5 device hours of GPUs");
  const [head = [], row = []] = projectRows([project]);
  expect(row[head.indexOf("GPUs used (s)")]).toBe(5400);
  expect(row[head.indexOf("CPU slots at most")]).toBe(4);
  expect(row).toHaveLength(head.length);
});
