import { expect, it } from "vitest";
import { ResourceStack } from "./resource-stack.ts";

it("closes last in, first out, goes on after a failure and throws the first error", async () => {
  const closed: string[] = [];
  const stack = new ResourceStack();
  stack.defer(() => void closed.push("a"));
  stack.defer(() => {
    throw new Error("b fails");
  });
  stack.use({ [Symbol.dispose]: () => void closed.push("c") });
  stack.use({
    [Symbol.asyncDispose]: () => {
      closed.push("d");
      return Promise.resolve();
    },
  });
  await expect(stack[Symbol.asyncDispose]()).rejects.toThrow("b fails");
  expect(closed).toEqual(["d", "c", "a"]);
});

it("closing twice closes once, and a closed stack takes nothing more", async () => {
  let count = 0;
  const stack = new ResourceStack();
  stack.defer(() => void count++);
  await Promise.all([stack[Symbol.asyncDispose](), stack[Symbol.asyncDispose]()]);
  expect(count).toBe(1);
  expect(() => stack.defer(() => undefined)).toThrow(/closed/);
});
