import { afterEach, expect, jest, test } from "@jest/globals";
import { backOff, WorkLoop } from "../../../src/sync/work-loop.ts";

afterEach(() => {
  jest.useRealTimers();
});

test("schedule() during work has it done exactly once more, however often it is called", async () => {
  const starts: PromiseWithResolvers<void>[] = [];
  const loop = new WorkLoop(async () => {
    const run = Promise.withResolvers<void>();
    starts.push(run);
    await run.promise;
    return true;
  });
  loop.schedule();
  await Promise.resolve();
  expect(starts).toHaveLength(1);
  loop.schedule();
  loop.schedule();
  starts[0]?.resolve();
  const second = Promise.withResolvers<void>();
  setImmediate(second.resolve);
  await second.promise;
  expect(starts).toHaveLength(2);
  starts[1]?.resolve();
  await loop.stop();
  expect(starts).toHaveLength(2);
});

test("work that failed is done again without being asked for", async () => {
  const again = Promise.withResolvers<void>();
  let runs = 0;
  const loop = new WorkLoop(async () => {
    runs += 1;
    if (runs === 2) {
      again.resolve();
    }
    return runs === 2;
  });
  loop.schedule();
  await again.promise;
  await loop.stop();
  expect(runs).toBe(2);
});

test("stop() waits for the work under way, and nothing starts afterwards", async () => {
  const run = Promise.withResolvers<boolean>();
  let runs = 0;
  const loop = new WorkLoop(() => {
    runs += 1;
    return run.promise;
  });
  loop.schedule();
  await Promise.resolve();
  const stopped = loop.stop();
  loop.schedule();
  run.resolve(false);
  await stopped;
  expect(runs).toBe(1);
});

test("what no event told is caught every minute, but only once the work was asked for", async () => {
  jest.useFakeTimers();
  let runs = 0;
  const loop = new WorkLoop(async () => {
    runs += 1;
    return true;
  });
  await jest.advanceTimersByTimeAsync(600_000);
  expect(runs).toBe(0);
  loop.schedule();
  await jest.advanceTimersByTimeAsync(120_000);
  expect(runs).toBe(3);
  await loop.stop();
});

test("scheduleIn() has the work done by the earliest of the times that were asked for", async () => {
  jest.useFakeTimers();
  let runs = 0;
  const loop = new WorkLoop(async () => {
    runs += 1;
    return true;
  });
  loop.scheduleIn(5000);
  loop.scheduleIn(2000);
  loop.scheduleIn(9000);
  loop.scheduleIn(Number.POSITIVE_INFINITY);
  await jest.advanceTimersByTimeAsync(1999);
  expect(runs).toBe(0);
  await jest.advanceTimersByTimeAsync(1);
  expect(runs).toBe(1);
  await jest.advanceTimersByTimeAsync(20_000);
  expect(runs).toBe(1);
  await loop.stop();
});

test("scheduleIn() starts nothing after stop()", async () => {
  jest.useFakeTimers();
  let runs = 0;
  const loop = new WorkLoop(async () => {
    runs += 1;
    return true;
  });
  loop.scheduleIn(1000);
  await loop.stop();
  loop.scheduleIn(1000);
  await jest.advanceTimersByTimeAsync(5000);
  expect(runs).toBe(0);
});

test("a success ends the count of failures that the delay goes by", async () => {
  jest.useFakeTimers();
  const answers = [false, false, true, false, true];
  const delays: number[] = [];
  const loop = new WorkLoop(
    async () => answers.shift() ?? true,
    (failures) => {
      delays.push(failures);
      return 1000;
    },
  );
  loop.schedule();
  await jest.advanceTimersByTimeAsync(2500);
  loop.schedule();
  await jest.advanceTimersByTimeAsync(2500);
  expect(delays).toEqual([1, 2, 1]);
  await loop.stop();
});

test("backOff() grows from a second to a minute, and is another one for each", () => {
  const delays = Array.from({ length: 20 }, (_, failures) => backOff(failures + 1));
  expect(Math.min(...delays)).toBeGreaterThanOrEqual(1000);
  expect(Math.max(...delays)).toBeLessThanOrEqual(60_000);
  expect(delays.at(-1)).toBeGreaterThanOrEqual(30_000);
  expect(new Set(delays).size).toBe(20);
});
