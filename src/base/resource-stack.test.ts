import { expect, it } from "vitest";
import { ResourceStack } from "./resource-stack.ts";

it("closes last in, first out, continues after a failure and throws the first error", async () => {
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

it("closes once however often it is called, and rejects additions after that", async () => {
  let count = 0;
  const stack = new ResourceStack();
  stack.defer(() => void count++);
  await Promise.all([stack[Symbol.asyncDispose](), stack[Symbol.asyncDispose]()]);
  expect(count).toBe(1);
  expect(() => stack.defer(() => undefined)).toThrow(/closed/);
});

it("ResourceStack.assemble() closes opened resources if a part fails, and only then", async () => {
  const closed: string[] = [];
  const build = async (stack: ResourceStack, isBroken: boolean): Promise<AsyncDisposable> => {
    stack.defer(() => void closed.push("first"));
    await Promise.resolve();
    stack.defer(() => void closed.push("second"));
    if (isBroken) throw new Error("the third fails");
    return { [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose]() };
  };
  await expect(ResourceStack.assemble((stack) => build(stack, true))).rejects.toThrow("the third fails");
  expect(closed).toEqual(["second", "first"]);
  {
    await using _whole = await ResourceStack.assemble((stack) => build(stack, false));
    expect(closed).toHaveLength(2);
  }
  expect(closed).toEqual(["second", "first", "second", "first"]);
});
