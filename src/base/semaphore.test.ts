import { expect, it } from "vitest";
import { Semaphore } from "./semaphore.ts";

it("Semaphore.run() never exceeds its limit, keeps order and frees the slot of a failed task", async () => {
  const semaphore = new Semaphore(2);
  let running = 0;
  let most = 0;
  const order: number[] = [];
  const task = (index: number) =>
    semaphore.run(async () => {
      running++;
      most = Math.max(most, running);
      order.push(index);
      await new Promise((resolve) => setImmediate(resolve));
      running--;
      if (index === 1) throw new Error("one fails");
    });
  const results = await Promise.allSettled([0, 1, 2, 3, 4].map(task));
  expect(most).toBe(2);
  expect(order).toEqual([0, 1, 2, 3, 4]);
  expect(results.map((result) => result.status)).toEqual(["fulfilled", "rejected", "fulfilled", "fulfilled", "fulfilled"]);
});
