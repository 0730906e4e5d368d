import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { transformSync } from "esbuild";
import { expect, test } from "vitest";

test.skipIf(!existsSync("/proc/self/oom_score_adj"))("preferForOutOfMemoryKill() sets the highest score of its process", () => {
  // In a new process: a score cannot be lowered again without privileges.
  const source = readFileSync(fileURLToPath(new URL("./oom-score.ts", import.meta.url)), "utf8");
  const { code } = transformSync(source, { loader: "ts", format: "cjs" });
  const script = `${code}\nmodule.exports.preferForOutOfMemoryKill();\nprocess.stdout.write(require("node:fs").readFileSync("/proc/self/oom_score_adj", "utf8"));`;
  expect(execFileSync(process.execPath, ["-e", script], { encoding: "utf8" }).trim()).toBe("1000");
});
