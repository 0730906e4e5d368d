import { describe, expect, it } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import { Forwarder, type ForwarderOptions, type ForwardOutcome } from "./forward.ts";
import type { OtlpRequest } from "./receiver.ts";

const requestOf = (name: string, bytes = 10): OtlpRequest => ({
  signal: "traces",
  format: "protobuf",
  encoding: "gzip",
  body: Buffer.from(name.padEnd(bytes)),
});
const nameOf = ({ body }: OtlpRequest) => Buffer.from(body).toString().trim();

function forwarder(send: ForwarderOptions["send"], over: Partial<ForwarderOptions> = {}): Forwarder {
  return new Forwarder({ send, maxQueueBytes: 100, clock: systemClock, log: silentLogger, ...over });
}

describe("Forwarder", () => {
  it("forwards requests unchanged", async () => {
    const sent: OtlpRequest[] = [];
    await using forward = forwarder(async (request) => {
      sent.push(request);
      return { kind: "sent" };
    });
    const request = requestOf("a");
    forward.offer(request);
    await expect.poll(() => sent).toEqual([request]);
    await expect.poll(() => forward.stats).toMatchObject({ sent: 1, dropped: 0, refused: 0, queuedBytes: 0, problem: "" });
  });

  it("drops and counts requests that do not fit the queue, without waiting", async () => {
    let release = (): void => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    await using forward = forwarder(async (): Promise<ForwardOutcome> => {
      await gate;
      return { kind: "sent" };
    });
    for (let index = 0; index < 15; index++) forward.offer(requestOf(`r${index}`));
    expect(forward.stats).toMatchObject({ dropped: 5, queuedBytes: 100 });
    release();
    await expect.poll(() => forward.stats.sent).toBe(10);
  });

  it("retries after a failure, but not after a refusal", async () => {
    const attempts: string[] = [];
    await using forward = forwarder(async (request) => {
      attempts.push(nameOf(request));
      if (nameOf(request) === "bad") return { kind: "refused", message: "400" };
      if (attempts.filter((name) => name === nameOf(request)).length === 1) throw new Error("connection refused");
      return { kind: "sent" };
    });
    forward.offer(requestOf("bad"));
    forward.offer(requestOf("good"));
    await expect.poll(() => forward.stats).toMatchObject({ sent: 1, refused: 1, dropped: 0 });
    expect(attempts.sort()).toEqual(["bad", "good", "good"]);
  });

  it("drops requests that became too old, and stops at once", async () => {
    const forward = forwarder(async () => ({ kind: "retry", message: "503", afterMs: 0 }), { maxAgeMs: -1 });
    forward.offer(requestOf("a"));
    await expect.poll(() => forward.stats).toMatchObject({ dropped: 1, problem: "503" });
    const waiting = forwarder(async () => ({ kind: "retry", message: "503", afterMs: 60_000 }));
    waiting.offer(requestOf("a"));
    await expect.poll(() => waiting.stats.problem).toBe("503");
    await waiting[Symbol.asyncDispose]();
    await forward[Symbol.asyncDispose]();
    forward.offer(requestOf("late"));
    expect(forward.stats.dropped).toBe(2);
  });
});
