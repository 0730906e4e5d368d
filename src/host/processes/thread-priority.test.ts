import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { getPriority, setPriority } from "node:os";
import { Worker } from "node:worker_threads";
import { transformSync } from "esbuild";
import { describe, expect, it } from "vitest";
import { takeBackPriority } from "./thread-priority.ts";

const { code } = transformSync(readFileSync(new URL("./thread-priority.ts", import.meta.url), "utf8"), { loader: "ts", format: "cjs" });

/** Runs in a new thread, because a lowered priority cannot be raised again. */
async function inThread(expression: string): Promise<{ given: unknown; own: number }> {
  const program = `
    ${code}
    const made = module.exports;
    const given = ${expression};
    const thread = Number(require("node:fs").readlinkSync("/proc/thread-self").split("/").at(-1));
    require("node:worker_threads").parentPort.postMessage({ given, own: require("node:os").getPriority(thread) });`;
  const worker = new Worker(program, { eval: true });
  try {
    return await new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject));
  } finally {
    await worker.terminate();
  }
}

describe.skipIf(process.platform !== "linux")("priority of threads", () => {
  const before = getPriority();

  it("is lowered for the calling thread only, at most to the lowest", async () => {
    const answer = await inThread("[made.lowerThreadPriority(5), made.lowerThreadPriority(100)]");
    expect(answer).toEqual({ given: [Math.min(19, before + 5), 19], own: 19 });
    expect(getPriority()).toBe(before);
  });

  it("is raised if permitted, and unchanged otherwise", async () => {
    const answer = await inThread("made.raiseThreadPriority(3)");
    const raised = Math.max(-20, before - 3);
    expect([
      { given: raised, own: raised },
      { given: undefined, own: before },
    ]).toContainEqual(answer);
    if (process.getuid?.() === 0) expect(answer.own).toBe(raised);
    expect(getPriority()).toBe(before);
  });

  it("is reset for a process with a raised priority, and kept for one with a lowered priority", async () => {
    const child = spawn("sleep", ["60"]);
    try {
      const pid = child.pid ?? 0;
      if (process.getuid?.() === 0) setPriority(pid, -7);
      expect(takeBackPriority(pid)).toBe(Math.max(0, getPriority(pid)));
      expect(getPriority(pid)).toBeGreaterThanOrEqual(0);
      setPriority(pid, 15);
      expect(takeBackPriority(pid)).toBe(15);
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
      expect(takeBackPriority(pid)).toBeUndefined();
    } finally {
      child.kill("SIGKILL");
    }
  });
});
