import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { colonyPaths } from "../../config/index.ts";
import { runningColonyPids } from "./own-processes.ts";
import { PidFile } from "./pid-file.ts";

test("runningColonyPids() has colonies that run, not those that have ended", async () => {
  const home = mkdtempSync(join(tmpdir(), "coral-own-"));
  try {
    expect(runningColonyPids(home)).toEqual([]);
    const path = colonyPaths(home, "shop-dev-1a2b3c").pidFile;
    mkdirSync(dirname(path), { recursive: true });
    const file = await PidFile.acquire(path, "colony", "0");
    expect(runningColonyPids(home)).toEqual([process.pid]);
    file[Symbol.dispose]();
    expect(runningColonyPids(home)).toEqual([]);
  } finally {
    rmSync(home, { recursive: true });
  }
});
