import { afterEach, expect, jest, test } from "@jest/globals";
import { Backoff } from "../../../../src/datastore/kubernetes/backoff.ts";

const { signal } = new AbortController();

afterEach(() => {
  jest.restoreAllMocks();
});

async function timeOf(work: Promise<void>): Promise<number> {
  const start = performance.now();
  await work;
  return performance.now() - start;
}

test("wait() takes twice as long after each failure, up to the longest, and starts over after a reset", async () => {
  const random = jest.spyOn(Math, "random").mockReturnValue(0.999);
  const backoff = new Backoff({ firstMs: 20, longestMs: 80 });
  for (const least of [20, 40, 80]) {
    // Timers may fire 1 ms early.
    expect(await timeOf(backoff.wait(0, signal))).toBeGreaterThan(least - 2);
  }
  random.mockReturnValue(0);
  for (const _ of Array.from({ length: 30 })) {
    await backoff.wait(0, signal);
  }
  expect(backoff.attempts).toBe(33);
  random.mockReturnValue(0.999);
  // Without the longest it would be months.
  expect(await timeOf(backoff.wait(0, signal))).toBeGreaterThan(78);
  backoff.reset();
  expect(backoff.attempts).toBe(0);
  random.mockReturnValue(0);
  expect(await timeOf(backoff.wait(50, signal))).toBeGreaterThan(48);
});

test("wait() ends at once when nobody waits any more", async () => {
  const backoff = new Backoff({ firstMs: 3_600_000, longestMs: 3_600_000 });
  await backoff.wait(3_600_000, AbortSignal.abort());
  const controller = new AbortController();
  const waiting = backoff.wait(3_600_000, controller.signal);
  controller.abort();
  await waiting;
  expect(backoff.attempts).toBe(2);
});
