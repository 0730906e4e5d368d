import { expect, test } from "vitest";
import { SharedResults } from "./shared-results.ts";

function setUp(maxKept = 8, version?: () => number) {
  let nowMs = 0;
  const clock = { wallMs: () => nowMs, monotonicMs: () => nowMs };
  const shared = new SharedResults<string>({
    clock,
    maxAgeMs: 5_000,
    maxKept,
    isShared: (result) => !result.startsWith("empty"),
    ...(version && { version }),
  });
  let computed = 0;
  const get = (key: string, tookMs: number): Promise<string> =>
    shared.get(key, async () => {
      const number = ++computed;
      nowMs += tookMs;
      await Promise.resolve();
      return `${key} ${number}`;
    });
  return {
    shared,
    get,
    pass: (ms: number): void => {
      nowMs += ms;
    },
  };
}

test("caches a result for ten times its computation time", async () => {
  const { get, pass } = setUp();
  expect(await get("a", 100)).toBe("a 1");
  pass(1_000);
  expect(await get("a", 100)).toBe("a 2");
});

test("caches no result longer than the limit, counted from the start of the computation", async () => {
  const { get, pass } = setUp();
  expect(await get("a", 1_000)).toBe("a 1");
  pass(4_000);
  expect(await get("a", 1_000)).toBe("a 2");
});

test("caches an expensive result for four times its computation time, up to eight seconds", async () => {
  const { get, pass } = setUp();
  expect(await get("a", 1_500)).toBe("a 1");
  pass(4_500);
  expect(await get("a", 3_000)).toBe("a 2");
  pass(4_999);
  expect(await get("a", 0)).toBe("a 2");
  pass(1);
  expect(await get("a", 0)).toBe("a 4");
});

test("uses a result for eight seconds while nothing changes, and computes it again as ever when something did", async () => {
  let version = 1;
  const { get, pass } = setUp(8, () => version);
  expect(await get("a", 10)).toBe("a 1");
  pass(7_900);
  expect(await get("a", 10)).toBe("a 1");
  pass(100);
  expect(await get("a", 10)).toBe("a 2");
  version++;
  pass(200);
  expect(await get("a", 10)).toBe("a 3");
});

test("refreshes in the background after half of the lifetime", async () => {
  let nowMs = 0;
  const clock = { wallMs: () => nowMs, monotonicMs: () => nowMs };
  const shared = new SharedResults<number>({ clock, maxAgeMs: 5_000, maxKept: 8, isShared: () => true });
  const begun: ((result: number) => void)[] = [];
  const get = (): Promise<number> => shared.get("a", () => new Promise((resolve) => begun.push(resolve)));
  const first = get();
  nowMs = 1_000;
  begun[0]?.(1);
  expect(await first).toBe(1);
  nowMs = 2_499;
  expect(await get()).toBe(1);
  expect(begun).toHaveLength(1);
  nowMs = 2_500;
  expect(await get()).toBe(1);
  expect(await get()).toBe(1);
  expect(begun).toHaveLength(2);
  nowMs = 3_000;
  begun[1]?.(2);
  await Promise.resolve();
  await Promise.resolve();
  expect(await get()).toBe(2);
  expect(begun).toHaveLength(2);
});

test("computes once for concurrent callers", async () => {
  const { get } = setUp();
  const [first, second] = [get("a", 10), get("a", 10)];
  expect(await Promise.all([first, second, get("b", 10)])).toEqual(["a 1", "a 1", "b 2"]);
});

test("does not cache a failure", async () => {
  const { shared } = setUp();
  const fail = (): Promise<string> => Promise.reject(new Error("no"));
  await expect(shared.get("a", fail)).rejects.toThrow("no");
  expect(await shared.get("a", () => Promise.resolve("yes"))).toBe("yes");
});

test("does not cache a result that the rule excludes", async () => {
  const { get } = setUp();
  expect(await get("empty", 100)).toBe("empty 1");
  expect(await get("empty", 100)).toBe("empty 2");
});

test("evicts the oldest results", async () => {
  const { get } = setUp(1);
  expect(await get("a", 100)).toBe("a 1");
  expect(await get("b", 1)).toBe("b 2");
  expect(await get("a", 100)).toBe("a 3");
});
