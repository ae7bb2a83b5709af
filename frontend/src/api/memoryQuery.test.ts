import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, expect, test, vi } from "vitest";
import type { JobSpec } from "./types";

afterEach(() => vi.unstubAllGlobals());

const spec = (batch: number) => ({ training: { global_batch: batch } }) as unknown as JobSpec;

/** What asks for a specification's memory, and the signal of each request that it has led to. */
async function asking() {
  const signals: AbortSignal[] = [];
  vi.stubGlobal("window", { location: { origin: "http://here" } });
  vi.stubGlobal("fetch", (request: Request) => {
    signals.push(request.signal);
    return new Promise((_, reject) => {
      request.signal.addEventListener("abort", () => reject(request.signal.reason));
    });
  });
  vi.resetModules();
  const { memoryQuery } = await import("./queries");
  const queries = new QueryClient();
  const observer = new QueryObserver(queries, memoryQuery(spec(8)));
  const leave = observer.subscribe(() => {});
  expect(signals).toHaveLength(0);
  const answer = observer.refetch();
  await vi.waitFor(() => expect(signals).toHaveLength(1));
  return { signals, memoryQuery, queries, observer, leave, answer };
}

test("who leaves is waited for no longer", async () => {
  const { signals, leave } = await asking();
  expect(signals[0]?.aborted).toBe(false);
  leave();
  expect(signals[0]?.aborted).toBe(true);
});

test("nor who changes the job", async () => {
  const { signals, memoryQuery, observer } = await asking();
  observer.setOptions(memoryQuery(spec(16)));
  expect(signals[0]?.aborted).toBe(true);
  expect(observer.getCurrentResult().isFetching).toBe(false);
  expect(signals).toHaveLength(1);
});

test("nor who cancels, and may ask again", async () => {
  const { signals, memoryQuery, queries, observer, answer } = await asking();
  await queries.cancelQueries({ queryKey: memoryQuery(spec(8)).queryKey });
  expect(signals[0]?.aborted).toBe(true);
  await answer;
  expect(observer.getCurrentResult()).toMatchObject({ isFetching: false, error: null });
  void observer.refetch();
  await vi.waitFor(() => expect(signals).toHaveLength(2));
});
