import { expect, it } from "vitest";
import { sleep, systemClock } from "./clock.ts";

it("sleep() rejects with the signal's reason, before and while sleeping", async () => {
  const reason = new Error("stopped");
  await expect(sleep(60_000, AbortSignal.abort(reason))).rejects.toBe(reason);
  const controller = new AbortController();
  const sleeping = sleep(60_000, controller.signal);
  controller.abort(reason);
  await expect(sleeping).rejects.toBe(reason);
});

it("systemClock.monotonicMs() never decreases", () => {
  let last = systemClock.monotonicMs();
  for (let index = 0; index < 1_000; index++) {
    const now = systemClock.monotonicMs();
    expect(now).toBeGreaterThanOrEqual(last);
    last = now;
  }
});
