import { expect, test } from "vitest";
import { figureCsv } from "./figureCsv";

const csv = (data: unknown[], layout: object = {}) => figureCsv({ data, layout } as never).split("\r\n");

test("lines over one axis are columns with their units", () => {
  const rows = csv(
    [
      { name: "loss", x: [0, 1, 2], y: [3, 2, null] },
      { name: "accuracy", x: [2], y: [0.5], yaxis: "y2", xaxis: "x2" },
      { name: "key", x: [null], y: [null], hoverinfo: "skip" },
    ],
    {
      xaxis: { matches: "x2" },
      xaxis2: { title: { text: "step" } },
      yaxis: { title: { text: "training loss" } },
      yaxis2: { title: { text: "<b>test</b> accuracy" }, tickformat: ".0%" },
    },
  );
  expect(rows).toEqual([
    'step,loss (training loss),"accuracy (test accuracy, share)"',
    "0,3,",
    "1,2,",
    "2,,0.5",
    "",
  ]);
});

test("stacked areas say whose they are, and end with their last bin", () => {
  const area = (name: string, yaxis: string, y: number[]) => ({
    name,
    stackgroup: yaxis,
    yaxis,
    x0: 1.5,
    dx: 0.01,
    y,
  });
  const panels = [
    { y: "y", title: "worker 0 sends" },
    { y: "y2", title: "worker 0 receives" },
  ];
  const rows = csv([area("fc1", "y", [8, 9, 0]), area("fc1", "y2", [0, 7, 0])], {
    meta: { panels },
    xaxis: { ticksuffix: "s" },
  });
  expect(rows).toEqual([
    "time (s),worker 0 sends: fc1 (bit/s),worker 0 receives: fc1 (bit/s)",
    "1.5,8,0",
    "1.51,9,7",
    "",
  ]);
});

test("a timeline's bars and outlines have a row each, in order of time", () => {
  const rows = csv(
    [
      {
        type: "bar",
        orientation: "h",
        name: "layers",
        base: [2],
        x: [0.5],
        y: [1.4],
        hovertext: ["<b>fc1</b><br>forward"],
      },
      {
        name: "colour 3",
        fill: "toself",
        meta: { code: 3 },
        x: [1, 2, 2, 1, null],
        y: [0, 0, 0.8, 0.8, null],
      },
      { name: "steps", x: [0, 0, null], y: [0, 1, null], hoverinfo: "skip" },
    ],
    {
      xaxis: { ticksuffix: "s" },
      yaxis: { tickvals: [0.42, 1.42], ticktext: ["<b>worker 0</b> compute", "send"] },
    },
  );
  expect(rows).toEqual([
    "series,row,from (s),to (s),what",
    "colour 3,worker 0 compute,1,2,",
    'layers,worker 0 send,2,2.5,"fc1, forward"',
    "",
  ]);
});

test("a line with intervals has their ends beside it; a point without one has none", () => {
  const error_y = { symmetric: false, array: [10, null, 0], arrayminus: [5, null, 0] };
  const rows = csv([{ type: "scatter", name: "p3", x: [1, 2, 3], y: [100, 200, 300], error_y }], {
    yaxis: { title: { text: "samples/s" } },
  });
  expect(rows).toEqual([
    'x,p3 (samples/s),"p3, from (samples/s)","p3, to (samples/s)"',
    "1,100,95,110",
    "2,200,,",
    "3,300,300,300",
    "",
  ]);
});

test("bars from zero on stand beside their names", () => {
  const bar = (name: string, x: number[]) => ({ type: "bar", orientation: "h", name, x, y: ["w0", "w1"] });
  const rows = csv([bar("compute", [5, 6]), bar("exposed", [1, 2])], {
    xaxis: { title: { text: "ms per iteration" } },
  });
  expect(rows).toEqual([
    "name,compute (ms per iteration),exposed (ms per iteration)",
    "w0,5,1",
    "w1,6,2",
    "",
  ]);
});

test("a unit is said once, and brackets do not hold brackets", () => {
  const bar = { type: "bar", orientation: "h", name: "0: not stale", x: [0.25], y: ["worker 0"] };
  const share = { title: { text: "share of the contributions" }, tickformat: ".0%" };
  expect(csv([bar], { xaxis: share })[0]).toBe("name,0: not stale (share of the contributions)");
  const part = { ...bar, name: "computation" };
  const title = { text: "ms per step (median); processors of the machine: 41 % busy" };
  const head = csv([part], { xaxis: { title }, meta: { unit: "ms per step (median)" } })[0];
  expect(head).toBe('name,"computation, ms per step (median)"');
  const line = { name: "p3", x: [0], y: [2] };
  const loss = { title: { text: "training loss (smoothed over 8 %)" } };
  expect(csv([line], { yaxis: loss })[0]).toBe('x,"p3, training loss (smoothed over 8 %)"');
});

test("a map's cells that hold something have a row each", () => {
  const rows = csv([
    {
      type: "heatmap",
      x: [0, 1, 2],
      y: ["conv1", "fc6"],
      z: [
        [0, 0.5],
        [0.25, 0],
      ],
      colorbar: { tickformat: ".0%" },
    },
    { name: "cells", fill: "toself", x: [0], y: [0], hoverinfo: "skip", meta: { level: 1 } },
  ]);
  expect(rows).toEqual(["row,from (s),to (s),value,unit", "conv1,1,2,0.5,share", "fc6,0,1,0.25,share", ""]);
});

test("a layer that people read with its class keeps its name in files", () => {
  const area = { name: "4 (Conv2d)", stackgroup: "y", x0: 0, dx: 1, y: [8, 0], meta: { key: "4" } };
  expect(csv([area], { xaxis: { ticksuffix: "s" } })[0]).toBe("time (s),4 (bit/s)");
  const map = { type: "heatmap", x: [0, 1], y: ["4 (Conv2d)"], z: [[2]], meta: { keys: ["4"] } };
  expect(csv([map])[1]).toBe("4,0,1,2,");
});

test("signs of markup in a name are the signs that they are", () => {
  const line = { name: "&lt;a&gt; 5&#37;{x} &amp;lt;", x: [0], y: [8] };
  expect(csv([line], { xaxis: { ticksuffix: "s" } })[0]).toContain("<a> 5%{x} &lt; (");
});
