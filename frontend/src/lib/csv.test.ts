import { expect, test } from "vitest";
import { csvOf, fileName } from "./csv";

test("what would break a row is quoted", () => {
  expect(csvOf([["a,b", 'say "x"', "two\nlines", 1.5]])).toBe('"a,b","say ""x""","two\nlines",1.5\r\n');
});

test("a spreadsheet calculates nothing that somebody wrote as a name", () => {
  const names = ['=HYPERLINK("http://x","y")', "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"];
  expect(csvOf(names.map((name) => [name]))).toBe(
    `"'=HYPERLINK(""http://x"",""y"")"\r\n'+1+cmd|' /C calc'!A0\r\n'-2+3\r\n'@SUM(A1)\r\n"'\t=1"\r\n"'\r=1"\r\n`,
  );
});

test("white space and wide signs hide no formula", () => {
  const names = [" =1+1", "\u00a0+1", "\u200b@SUM(A1)", "＝1+1", "＋1", "－1+1", "＠SUM(A1)"];
  expect(csvOf(names.map((name) => [name]))).toBe(names.map((name) => `'${name}\r\n`).join(""));
  expect(csvOf([["\n=1"]])).toBe(`"'\n=1"\r\n`);
});

test("what other separators would make a cell of its own is quoted", () => {
  expect(csvOf([["x;=1+1", "x\t=1+1", "x\n=1+1"]])).toBe('"x;=1+1","x\t=1+1","x\n=1+1"\r\n');
});

test("numbers stay numbers, also where they are negative or written out", () => {
  expect(csvOf([[-1.5, "-1.5", "+2", "-3e-7", "a=b"]])).toBe("-1.5,-1.5,+2,-3e-7,a=b\r\n");
});

test("what is no number leaves its place empty", () => {
  expect(csvOf([["x", null, undefined, Number.NaN, 0]])).toBe("x,,,,0\r\n");
});

test("a file's name has nothing that a file system refuses", () => {
  expect(fileName("My job: P3/ring Timeline", "svg")).toBe("my-job-p3-ring-timeline.svg");
  expect(fileName("../..", "csv")).toBe("trainyard.csv");
});
