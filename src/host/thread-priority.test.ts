import { readFileSync } from "node:fs";
import { getPriority } from "node:os";
import { Worker } from "node:worker_threads";
import { transformSync } from "esbuild";
import { expect, it } from "vitest";

const { code } = transformSync(readFileSync(new URL("./thread-priority.ts", import.meta.url), "utf8"), { loader: "ts", format: "cjs" });

/** In a thread of its own: what is lowered stays so. */
const program = `
  ${code}
  const lowered = [module.exports.lowerThreadPriority(5), module.exports.lowerThreadPriority(100)];
  const thread = Number(require("node:fs").readlinkSync("/proc/thread-self").split("/").at(-1));
  require("node:worker_threads").parentPort.postMessage({ lowered, own: require("node:os").getPriority(thread) });`;

it.skipIf(process.platform !== "linux")(
  "lowerThreadPriority() lowers the calling thread, to the lowest at most, and no other",
  async () => {
    const before = getPriority();
    const worker = new Worker(program, { eval: true });
    try {
      const answer = await new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject));
      expect(answer).toEqual({ lowered: [Math.min(19, before + 5), 19], own: 19 });
      expect(getPriority()).toBe(before);
    } finally {
      await worker.terminate();
    }
  },
);
