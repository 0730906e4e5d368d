import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLogger } from "../../base/log.ts";
import { processesWithVariable, readCgroupMounts } from "../../host/index.ts";
import { left } from "../command-runner.fixture.ts";
import { openCommandGroups } from "./command-groups.ts";

/** Without environment and session, only root can find the process, by its group. */
const shy = process.getuid?.() === 0 ? "env -i /usr/bin/setsid /bin/sleep 1004 &" : "";

/** A minimal agent: runs one command that daemonizes in several ways, and reports when done. */
const agent = (fixture: string): string => `
import { createTestRunner, testOrder } from ${JSON.stringify(fixture)};
const { runner } = createTestRunner({}, process.argv[2], process.argv[4] === "plain" ? { groups: { parents: [], limited: [], create: async () => undefined, close: () => undefined } } : {});
const order = testOrder({ commandId: process.argv[3], argv: ["sh", "-c", "trap '' TERM HUP INT; setsid sleep 1000 & ${shy} (setsid sh -c 'sleep 1001 & sleep 1002' &); echo ready; wait; sleep 1003"] });
const { running } = await runner.start(order, new AbortController().signal, () => undefined);
for await (const { data } of running.output()) process.stdout.write(data);
`;

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "coral-watchdog-"));
  await build({
    stdin: { contents: agent(fileURLToPath(new URL("../command-runner.fixture.ts", import.meta.url))), resolveDir: directory },
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    external: ["@lydell/node-pty"],
    outfile: join(directory, "agent.mjs"),
    logLevel: "silent",
  });
});
afterAll(() => rm(directory, { recursive: true }));

async function startAgent(commandId: string, how = "groups"): Promise<ChildProcess> {
  const child = spawn(process.execPath, [join(directory, "agent.mjs"), directory, commandId, how], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(child.stdout ?? child, "data");
  return child;
}

const watchdogs = (): string[] => processesWithVariable("COMMAND_VARIABLE=CORAL_COMMAND_ID").map(String);

describe("the watchdog", () => {
  it.each(["groups", "plain"])("kills all commands of an agent that is killed, with %s processes", async (how) => {
    const commandId = randomUUID();
    const child = await startAgent(commandId, how);
    await expect.poll(() => left(commandId).length).toBeGreaterThanOrEqual(4);
    child.kill("SIGKILL");
    await once(child, "exit");
    await expect.poll(() => left(commandId)).toEqual([]);
    await expect.poll(() => readCgroupMounts().filter(({ directory: at }) => groupsOf(at, child.pid).length > 0)).toEqual([]);
  });

  it.runIf(process.getuid?.() === 0)(
    "is backed up by the next start, which kills processes that agent and watchdog left behind",
    async () => {
      const commandId = randomUUID();
      const before = new Set(watchdogs());
      const child = await startAgent(commandId);
      for (const pid of watchdogs()) if (!before.has(pid)) process.kill(Number(pid), "SIGKILL");
      child.kill("SIGKILL");
      await once(child, "exit");
      // Without agent and watchdog they keep running.
      expect(left(commandId).length).toBeGreaterThan(0);
      const warnings: string[] = [];
      const log = createLogger("test", "warn", ({ message }) => warnings.push(message));
      openCommandGroups({ log }).close();
      await expect.poll(() => left(commandId)).toEqual([]);
      expect(warnings.join()).toContain("left behind");
      openCommandGroups({ log }).close();
    },
  );
});

function groupsOf(mount: string, pid: number | undefined): string[] {
  return readdirSync(mount).filter((name) => name.startsWith("coral-exec.") && name.split(".")[2] === String(pid));
}
