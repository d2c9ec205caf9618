/** Points in time that tell which of two things came later, also where somebody sets the clock. */
import { readFileSync } from "node:fs";
import { z } from "zod";

export const moment = z.object({
  /** Of the boot that it lies in: random(4). */
  boot: z.string(),
  /** Since that boot, the same for every process: CLOCK_MONOTONIC, exact for 285 years. */
  microseconds: z.int(),
});

export type Moment = z.infer<typeof moment>;

export function momentNow(): Moment {
  return { boot: bootId(), microseconds: Number(process.hrtime.bigint() / 1000n) };
}

/** A moment of another boot comes before every moment of this one. */
export function isLater(moment: Moment, other: Moment): boolean {
  return moment.boot === other.boot && moment.microseconds > other.microseconds;
}

/** Another one after each boot of the machine. */
export function bootId(): string {
  return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
}
