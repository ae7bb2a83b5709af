import { hashKey, QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { costOf, drawn } from "./costs";
import { Refresher } from "./refresher";

const INTERVAL = 1000;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A query on screen that counts how often it was asked; each answer takes `takesMs`. */
function watched(client: QueryClient, jobs: string[] | "all", takesMs = 0, enabled = true) {
  const asked = { times: 0 };
  const observer = new QueryObserver(client, {
    queryKey: ["figure", jobs, takesMs, enabled],
    queryFn: async () => {
      asked.times += 1;
      await new Promise((done) => setTimeout(done, takesMs));
      return asked.times;
    },
    meta: { jobs },
    enabled,
    staleTime: Number.POSITIVE_INFINITY,
  });
  observer.subscribe(() => {});
  return asked;
}

test("many changes within one interval are one question", async () => {
  const client = new QueryClient();
  const asked = watched(client, ["a"]);
  await vi.advanceTimersByTimeAsync(10);
  const refresher = new Refresher(client, INTERVAL);
  for (let i = 0; i < 50; i += 1) refresher.changed("a");
  await vi.advanceTimersByTimeAsync(INTERVAL + 10);
  expect(asked.times).toBe(2);
  await vi.advanceTimersByTimeAsync(5 * INTERVAL);
  expect(asked.times).toBe(2);
});

test("only what shows the job is asked for again", async () => {
  const client = new QueryClient();
  const [own, other, all] = [watched(client, ["a"]), watched(client, ["b"]), watched(client, "all")];
  await vi.advanceTimersByTimeAsync(10);
  new Refresher(client, INTERVAL).changed("a");
  await vi.advanceTimersByTimeAsync(INTERVAL + 10);
  expect([own.times, other.times, all.times]).toEqual([2, 1, 2]);
});

test("a slow answer is waited for, and a change that came meanwhile is not lost", async () => {
  const client = new QueryClient();
  const asked = watched(client, ["a"], 3 * INTERVAL);
  const refresher = new Refresher(client, INTERVAL);
  await vi.advanceTimersByTimeAsync(10);
  refresher.changed("a");
  await vi.advanceTimersByTimeAsync(2 * INTERVAL);
  expect(asked.times).toBe(1);
  await vi.advanceTimersByTimeAsync(3 * INTERVAL);
  expect(asked.times).toBe(2);
});

test("a costly answer is asked for more rarely", async () => {
  const client = new QueryClient();
  const asked = watched(client, ["costly"]);
  await vi.advanceTimersByTimeAsync(10);
  drawn(["figure", ["costly"], 0, true], INTERVAL);
  const refresher = new Refresher(client, INTERVAL);
  for (let second = 0; second < 12; second += 1) {
    refresher.changed("costly");
    await vi.advanceTimersByTimeAsync(INTERVAL);
  }
  // At once, and again after each five times what it costs.
  expect(asked.times).toBe(1 + 3);
});

test("the cost of what is gone from the cache is forgotten", () => {
  const client = new QueryClient();
  const key = ["figure", "a window that nobody looks at any more"];
  client.setQueryData(key, 1);
  const refresher = new Refresher(client, INTERVAL);
  drawn(key, 7);
  expect(costOf(hashKey(key))).toBe(7);
  client.removeQueries({ queryKey: key });
  expect(costOf(hashKey(key))).toBe(0);
  refresher.stop();
});

test("what is off screen is not fetched", async () => {
  const client = new QueryClient();
  const asked = watched(client, ["a"], 0, false);
  new Refresher(client, INTERVAL).changed("a");
  await vi.advanceTimersByTimeAsync(2 * INTERVAL);
  expect(asked.times).toBe(0);
});

test("a hidden page asks when it is shown again", async () => {
  const client = new QueryClient();
  const asked = watched(client, ["a"]);
  await vi.advanceTimersByTimeAsync(10);
  const refresher = new Refresher(client, INTERVAL);
  refresher.paused = true;
  refresher.changed("a");
  await vi.advanceTimersByTimeAsync(3 * INTERVAL);
  expect(asked.times).toBe(1);
  refresher.paused = false;
  await vi.advanceTimersByTimeAsync(INTERVAL + 10);
  expect(asked.times).toBe(2);
});

test("what was asked for before notices came is asked for again, once, also where the answer is under way", async () => {
  const client = new QueryClient();
  const [answered, underWay] = [watched(client, ["a"]), watched(client, ["b"], 2 * INTERVAL)];
  await vi.advanceTimersByTimeAsync(10);
  const refresher = new Refresher(client, INTERVAL);
  refresher.reset();
  const later = watched(client, ["c"]);
  await vi.advanceTimersByTimeAsync(5 * INTERVAL);
  expect([answered.times, underWay.times, later.times]).toEqual([2, 2, 1]);
});
