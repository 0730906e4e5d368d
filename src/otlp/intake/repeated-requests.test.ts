import { describe, expect, it, vi } from "vitest";
import { RepeatedRequests } from "./repeated-requests.ts";

let nowMs = 0;
const clock = { monotonicMs: () => nowMs };
const body = (text: string): Buffer => Buffer.from(text);

describe("RepeatedRequests", () => {
  it("takes the same bytes once, and answers both times", async () => {
    const requests = new RepeatedRequests<number>({ clock });
    const take = vi.fn<() => Promise<number>>().mockResolvedValueOnce(1).mockResolvedValueOnce(2);
    expect(await requests.once("traces", body("a"), take)).toBe(1);
    expect(await requests.once("traces", body("a"), take)).toBe(1);
    expect(await requests.once("traces", body("b"), take)).toBe(2);
    expect([take.mock.calls.length, requests.repeated]).toEqual([2, 1]);
  });

  it("distinguishes signals, and bodies that differ only at their ends", async () => {
    const requests = new RepeatedRequests<string>({ clock });
    const large = (last: string): Buffer => Buffer.concat([Buffer.alloc(100_000), body(last)]);
    expect(await requests.once("traces", body("a"), async () => "trace")).toBe("trace");
    expect(await requests.once("logs", body("a"), async () => "log")).toBe("log");
    expect(await requests.once("traces", large("x"), async () => "x")).toBe("x");
    expect(await requests.once("traces", large("y"), async () => "y")).toBe("y");
    expect(requests.repeated).toBe(0);
  });

  it("makes a retransmission wait for the first request", async () => {
    const requests = new RepeatedRequests<number>({ clock });
    let resolve: (value: number) => void = () => undefined;
    const promise = new Promise<number>((done) => (resolve = done));
    const both = [requests.once("traces", body("a"), () => promise), requests.once("traces", body("a"), async () => 2)];
    resolve(1);
    expect(await Promise.all(both)).toEqual([1, 1]);
  });

  it("forgets what failed", async () => {
    const requests = new RepeatedRequests<number>({ clock });
    await expect(requests.once("traces", body("a"), () => Promise.reject(new Error("full")))).rejects.toThrow("full");
    expect(await requests.once("traces", body("a"), async () => 2)).toBe(2);
  });

  it("remembers for at least the given time, and at most the given number", async () => {
    nowMs = 0;
    const requests = new RepeatedRequests<number>({ clock, keepMs: 1_000, maxKept: 10 });
    await requests.once("traces", body("a"), async () => 1);
    nowMs = 1_900;
    expect(await requests.once("traces", body("a"), async () => 2)).toBe(1);
    nowMs = 3_000;
    expect(await requests.once("traces", body("a"), async () => 3)).toBe(3);
    for (let index = 0; index < 30; index++) await requests.once("traces", body(`n${index}`), async () => 0);
    expect(await requests.once("traces", body("a"), async () => 4)).toBe(4);
    expect(await requests.once("traces", body("n29"), async () => 5)).toBe(0);
  });
});
