import { expect, test } from "vitest";
import { LinkSpeed } from "./link-speed.ts";

const timeoutMs = 10_000;

function after(...pulls: [tookMs: number, bytes: number][]): LinkSpeed {
  const speed = new LinkSpeed();
  for (const [tookMs, bytes] of pulls) speed.answered({ tookMs, bytes }, timeoutMs);
  return speed;
}

const five = (tookMs: number, bytes: number) => Array.from({ length: 5 }, (): [number, number] => [tookMs, bytes]);

test("a 64 kbit link is slow, with figures", () => {
  expect(after(...five(2_000, 16_000)).reading).toEqual({ isSlow: true, pullMs: 2_000, pullBytes: 16_000, bytesPerSecond: 8_000 });
});

test("a long round trip with a large answer does not make a link slow", () => {
  expect(after(...five(300, 3_000)).reading?.isSlow).toBe(false);
  expect(after(...five(3_000, 4_000_000)).reading?.isSlow).toBe(false);
});

test("is judged by the last five pulls that carried rows, and is fast again after as many", () => {
  expect(after(...five(2_000, 16_000).slice(1)).reading).toBeUndefined();
  // Answers without rows show nothing about the link.
  expect(after(...five(20, 200)).reading).toBeUndefined();
  expect(after(...five(2_000, 16_000), ...five(20, 16_000)).reading?.isSlow).toBe(false);
});

test("requests little at first, more after timely answers, less after a timeout, and never less than a few rows", () => {
  const speed = new LinkSpeed();
  const answered = (tookMs: number, bytes = speed.batchBytes(4_000_000)): number => {
    speed.answered({ tookMs, bytes }, timeoutMs);
    return speed.batchBytes(4_000_000);
  };
  expect(speed.batchBytes(4_000_000)).toBe(32_768);
  expect(speed.batchBytes(1_000)).toBe(1_000);
  expect([answered(50), answered(50, 20_000), answered(50), answered(5_000)]).toEqual([65_536, 65_536, 131_072, 131_072]);
  speed.timedOut(4_000_000);
  expect(speed.batchBytes(4_000_000)).toBe(32_768);
  for (let times = 0; times < 9; times++) speed.timedOut(4_000_000);
  expect(speed.batchBytes(4_000_000)).toBe(8_192);
  for (let times = 0; times < 9; times++) answered(50);
  expect(speed.batchBytes(4_000_000)).toBe(4_000_000);
});
