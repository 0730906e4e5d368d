import { expect, it } from "vitest";
import { createBackoff } from "./backoff.ts";

it("nextMs() doubles its window up to the maximum and restarts after reset()", () => {
  const backoff = createBackoff({ initialMs: 100, maxMs: 400, random: () => 1 });
  expect([backoff.nextMs(), backoff.nextMs(), backoff.nextMs(), backoff.nextMs()]).toEqual([100, 200, 400, 400]);
  backoff.reset();
  expect(backoff.nextMs()).toBe(100);
  expect(createBackoff({ initialMs: 100, random: () => 0 }).nextMs()).toBe(50);
});
