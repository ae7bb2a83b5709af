import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LiveConnection } from "./connection";

/** A browser's event stream, as far as the connection knows it. */
class Stream extends EventTarget {
  static readonly CLOSED = 2;
  static all: Stream[] = [];
  static get open() {
    return Stream.all.filter((stream) => stream.readyState !== Stream.CLOSED);
  }
  readyState = 0;
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;
  constructor(readonly address: string) {
    super();
    Stream.all.push(this);
  }
  close() {
    this.readyState = Stream.CLOSED;
  }
  says(kind: string, id: string, data: object = {}) {
    this.dispatchEvent(new MessageEvent(kind, { data: JSON.stringify(data), lastEventId: id }));
  }
  breaks() {
    this.readyState = Stream.CLOSED;
    this.onerror?.();
  }
}

let page: EventTarget & { hidden: boolean };
let connection: LiveConnection;
let client: QueryClient;

beforeEach(() => {
  vi.useFakeTimers();
  Stream.all = [];
  page = Object.assign(new EventTarget(), { hidden: false });
  vi.stubGlobal("document", page);
  vi.stubGlobal("EventSource", Stream);
  client = new QueryClient();
  connection = new LiveConnection(client);
});
afterEach(() => {
  connection.stop();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

function show(hidden: boolean) {
  page.hidden = hidden;
  page.dispatchEvent(new Event("visibilitychange"));
}

/** Shows job `a`; answers how often it was asked for. */
function watchJob(): () => number {
  let asked = 0;
  const observer = new QueryObserver(client, {
    queryKey: ["job", "a"],
    queryFn: () => ({ id: "a", revision: ++asked }),
    meta: { jobs: ["a"] },
    staleTime: Number.POSITIVE_INFINITY,
  });
  observer.subscribe(() => {});
  return () => asked;
}

test("a page that stays hidden lets its stream go, and goes on after the last event when it is shown", () => {
  connection.start();
  Stream.all[0]?.onopen?.();
  Stream.all[0]?.says("ready", "7");
  Stream.all[0]?.says("job", "9", { job_id: "a", revision: 1 });
  show(true);
  vi.advanceTimersByTime(60_000);
  expect(Stream.open).toEqual([]);
  expect(connection.snapshot().connection).toBe("live");
  show(false);
  expect(Stream.open.map((stream) => stream.address)).toEqual(["/api/v1/notices?last_event_id=9"]);
  expect(connection.snapshot().connection).toBe("live");
});

test("who looks at another tab for a moment keeps the stream", () => {
  connection.start();
  show(true);
  vi.advanceTimersByTime(5_000);
  show(false);
  vi.advanceTimersByTime(60_000);
  expect(Stream.all.length).toBe(1);
  expect(Stream.open.length).toBe(1);
});

test("a page that is opened in the background has no stream until it is shown", () => {
  page.hidden = true;
  connection.start();
  vi.advanceTimersByTime(60_000);
  expect(Stream.all).toEqual([]);
  show(false);
  expect(Stream.open.map((stream) => stream.address)).toEqual(["/api/v1/notices"]);
});

test("a stream that broke is resumed, but not while the page is hidden, and never twice", () => {
  connection.start();
  Stream.all[0]?.says("ready", "3");
  Stream.all[0]?.breaks();
  expect(connection.snapshot().connection).toBe("lost");
  show(true);
  show(false);
  expect(Stream.open).toEqual([]);
  vi.advanceTimersByTime(2_000);
  expect(Stream.open.map((stream) => stream.address)).toEqual(["/api/v1/notices?last_event_id=3"]);
  Stream.open[0]?.breaks();
  show(true);
  vi.advanceTimersByTime(60_000);
  expect(Stream.open).toEqual([]);
  show(false);
  expect(Stream.open.length).toBe(1);
});

test("what changed while the page was hidden is asked for when it is shown", async () => {
  const asked = watchJob();
  connection.start();
  Stream.all[0]?.says("ready", "1");
  await vi.advanceTimersByTimeAsync(5_000);
  const before = asked();
  show(true);
  await vi.advanceTimersByTimeAsync(60_000);
  show(false);
  Stream.open[0]?.says("job", "2", { job_id: "a", revision: 99 });
  await vi.advanceTimersByTimeAsync(5_000);
  expect(asked()).toBe(before + 1);
});

test("a reset asks for everything again", async () => {
  const asked = watchJob();
  connection.start();
  await vi.advanceTimersByTimeAsync(5_000);
  const before = asked();
  Stream.all[0]?.says("reset", "9");
  await vi.advanceTimersByTimeAsync(5_000);
  expect(asked()).toBe(before + 1);
});

test("what failed while the service was away is asked for when it is back", async () => {
  let away = true;
  const observer = new QueryObserver(client, {
    queryKey: ["summary", "a"],
    queryFn: () => (away ? Promise.reject(new Error("away")) : "there"),
    retry: false,
  });
  observer.subscribe(() => {});
  connection.start();
  Stream.all[0]?.says("ready", "3");
  Stream.all[0]?.breaks();
  await vi.advanceTimersByTimeAsync(2_000);
  expect(observer.getCurrentResult().status).toBe("error");
  away = false;
  Stream.open[0]?.onopen?.();
  await vi.advanceTimersByTimeAsync(0);
  expect(observer.getCurrentResult().data).toBe("there");
});
