import { describe, expect, it } from "vitest";
import { createPacer } from "./pacer.ts";

const spin = (durationMs: number): void => {
  const endsMs = performance.now() + durationMs;
  while (performance.now() < endsMs);
};

describe("createPacer()", () => {
  it("is due after its slice, and yields when it rests", async () => {
    const pacer = createPacer(undefined, 3);
    expect(pacer.due()).toBe(false);
    spin(4);
    expect(pacer.due()).toBe(true);
    let othersRan = false;
    setImmediate(() => {
      othersRan = true;
    });
    await pacer.rest();
    expect(othersRan).toBe(true);
    expect(pacer.due()).toBe(false);
  });

  it("stops when aborted", async () => {
    const stop = new AbortController();
    const pacer = createPacer(stop.signal);
    const resting = pacer.rest();
    stop.abort(new Error("enough"));
    await expect(resting).rejects.toThrow("enough");
  });
});
