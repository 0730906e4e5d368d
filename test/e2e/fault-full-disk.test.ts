import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { CoralError } from "../../src/base/errors.ts";
import { agentPaths, colonyPaths, listLocalColonies } from "../../src/config/index.ts";
import { requestText } from "../../src/transport/index.ts";
import { expectExactlyOnce } from "../support/compare-load.ts";
import { type ColonyDaemon, startAgent, startColony } from "../support/daemon.ts";
import { runCoral } from "../support/run-coral.ts";
import { SmallDisk, smallDiskSkipReason } from "../support/small-disk.ts";
import { loadAgentIdOf, readLoadNotes, startLoadAgent } from "../support/start-load-agent.ts";
import { makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

const degradedAfterMs = 6_000;
const config = `pull:\n  interval: 500ms\n  timeout: 5s\nhealth:\n  degraded_after: ${degradedAfterMs}ms\n  unhealthy_after: 60s\n`;

interface Status {
  agents: { healthy: number };
  store: { writeProblem: string };
  warnings: { kind: string; message: string }[];
  completeness: { complete: boolean; notes: { kind: string; signal?: string; rows?: number; message: string }[] };
}

function statusOf(colony: ColonyDaemon): Promise<Status> {
  return colony.tool<Status>("coral_get_status");
}

/** Refused rows by signal. */
function refusedRows(home: string): Record<string, number> {
  const rows: Record<string, number> = {};
  for (const refused of readLoadNotes(home).refused) rows[refused.signal] = (rows[refused.signal] ?? 0) + refused.rows;
  return rows;
}

describe("a full disk", () => {
  beforeEach((context) => {
    const reason = smallDiskSkipReason();
    context.skip(reason !== undefined, reason);
  });

  it("at the agent is reported, loses only refused rows, counts them, and recovers without a restart", async () => {
    await using colonyHome = makeTestHome();
    await using agentHome = makeTestHome();
    await using disk = SmallDisk.mount(agentPaths(agentHome.path).dataDirectory, 48);
    await using colony = await startColony({ home: colonyHome.path, config });
    const load = { home: agentHome.path, rowsPerAppend: 10, pauseMs: 20 };
    const first = await startLoadAgent({ ...load, run: 1, token: await colony.createJoinToken() });
    await waitFor("appends", () => readLoadNotes(agentHome.path).acknowledged.length > 20);
    disk.fill();
    await waitFor("refusals", () => readLoadNotes(agentHome.path).refused.length > 20, { details: () => first.lastLines() });
    expect(readLoadNotes(agentHome.path).refused.at(-1)).toMatchObject({
      code: "unavailable",
      reason: expect.stringContaining("no space left"),
    });
    // The agent still responds, and its stored rows can be pulled.
    const before = readLoadNotes(agentHome.path).acknowledged.length;
    expect((await statusOf(colony)).agents.healthy).toBe(1);
    disk.free();
    await waitFor("appends again", () => readLoadNotes(agentHome.path).acknowledged.length > before + 20, {
      details: () => first.lastLines(),
    });
    const refused = refusedRows(agentHome.path);
    await waitFor("the losses at the colony", async () => {
      const { completeness } = await statusOf(colony);
      const lost = Object.fromEntries(
        completeness.notes.filter(({ message }) => message.includes("disk-full")).map(({ signal, rows }) => [signal, rows]),
      );
      return JSON.stringify(Object.entries(lost).sort()) === JSON.stringify(Object.entries(refused).sort());
    });
    // Full again, then killed: acknowledged rows must not depend on the missing space.
    disk.fill();
    const refusals = readLoadNotes(agentHome.path).refused.length;
    await waitFor("refusals again", () => readLoadNotes(agentHome.path).refused.length > refusals + 5);
    await first.kill("SIGKILL");
    disk.free();
    await using second = await startLoadAgent({ ...load, run: 2 });
    await waitFor("appends after the kill", () => readLoadNotes(agentHome.path).acknowledged.some(({ run }) => run === 2), {
      details: () => second.lastLines(),
    });
    await second.stop();
    await using rest = await startLoadAgent({ ...load, run: 3, pauseMs: 3_600_000 });
    await expectExactlyOnce(colony, loadAgentIdOf(agentHome.path), readLoadNotes(agentHome.path));
    await rest.stop();

    await using agent = await startAgent({ home: agentHome.path, config: "host:\n  interval: 1s\n" });
    await waitFor("host rows", async () => ((await agent.status()).store.rowsBySignal["host"] ?? 0) > 0);
    disk.fill();
    await agent.waitForOutput(/Cannot collect host samples: .*no space left/);
    await waitFor("the loss in the agent's status", async () =>
      (await agent.status()).losses.some(({ signal, reason }) => signal === "host" && reason === "disk-full"),
    );
    const request = { target: { kind: "unix", path: agent.paths.socketFile }, method: "GET" } as const;
    await waitFor("the agent not to be ready", async () => {
      const refusal = await requestText({ ...request, path: "/readyz" }).catch((error: unknown) => CoralError.from(error));
      return refusal instanceof CoralError && /cannot store rows: .*no space left/.test(String(refusal.details["text"]));
    });
    expect(await requestText({ ...request, path: "/healthz" })).toContain("ok");
    await waitFor("the problem at the colony", async () => {
      const { warnings, completeness } = await statusOf(colony);
      return (
        warnings.some(({ kind, message }) => kind === "store-write" && /cannot store rows: no space left/.test(message)) &&
        completeness.notes.some(({ message }) => /cannot store rows: .*; its newest rows are missing/.test(message))
      );
    });
    expect((await statusOf(colony)).agents.healthy).toBe(0);
    const summary = await runCoral(["query", "summary", "coral"], { home: colonyHome.path });
    expect(summary.stdout).toMatch(/coral {2}unknown.*\n.*cannot store rows: no space left/);
    expect((await agent.status()).notes).toContainEqual(expect.stringMatching(/^Nothing can be stored: .*no space left/));
    disk.free();
    await agent.waitForOutput(/Storing host samples again/);
    await waitFor("readiness", async () => (await requestText({ ...request, path: "/readyz" })).includes("ready"));
    await waitFor("the event at the colony", async () => {
      const events = await colony.sql("SELECT message FROM events WHERE kind = 'store-write-failed'");
      return events.some(({ message }) => /^The agent could not store rows since .*no space left/.test(String(message)));
    });
    await waitFor("the agent to be healthy", async () => (await statusOf(colony)).agents.healthy === 1);
    await agent.stop();
  });

  it("of a whole home lets no command fail with a bare errno, leaves no half a colony, and keeps no daemon from starting", async () => {
    await using home = makeTestHome();
    await using disk = SmallDisk.mount(join(home.path, "disk"), 64);
    const path = join(disk.path, "home");
    disk.fill();
    const init = await runCoral(["init", "test"], { home: path });
    expect(init.code).toBe(1);
    expect(init.stderr).toMatch(/^error: Cannot (?:write|create directory) ".*": the disk is full; free some space$/m);
    disk.free();
    expect(await listLocalColonies(path)).toEqual([]);
    await using first = await startColony({ home: path, config });
    const { port } = first;
    await first.stop();
    disk.fill();
    await using second = await startColony({ home: path, port, waitUntilReady: false });
    await waitFor(
      "the colony to start on a full disk",
      async () => (await statusOf(second)).warnings.some(({ kind }) => kind === "disk-full"),
      { details: () => second.lastLines() },
    );
  });

  it("at the colony is reported, loses nothing, does not make agents look silent, and recovers without a restart", async () => {
    await using colonyHome = makeTestHome();
    await using agentHome = makeTestHome();
    await runCoral(["init", "test"], { home: colonyHome.path });
    const [colonyId = ""] = await listLocalColonies(colonyHome.path);
    const paths = colonyPaths(colonyHome.path, colonyId);
    appendFileSync(paths.configFile, config);
    await using disk = SmallDisk.mount(paths.dataDirectory, 64);
    let colony = await startColony({ home: colonyHome.path });
    const { port } = colony;
    await using agent = await startLoadAgent({
      home: agentHome.path,
      token: await colony.createJoinToken(),
      rowsPerAppend: 10,
      pauseMs: 20,
    });
    const countRows = async (): Promise<number> => Number((await colony.sql("SELECT count(*) AS n FROM host_process"))[0]?.["n"]);
    await waitFor("rows", async () => (await countRows()) > 100);
    disk.fill();
    const filledAtMs = performance.now();
    await waitFor("the problem in status", async () => (await statusOf(colony)).store.writeProblem.includes("no space left"), {
      details: () => colony.lastLines(),
    });
    const kinds = (await statusOf(colony)).warnings.map(({ kind }) => kind);
    expect(kinds).toContain("store-write");
    const ready = await fetch(`http://${colony.endpoint}/readyz`);
    expect([ready.status, await ready.text()]).toEqual([503, expect.stringContaining("cannot store rows: ")]);
    expect((await fetch(`http://${colony.endpoint}/healthz`)).status).toBe(200);
    expect(kinds).toContain("disk-full");
    expect(colony.output).toContain("no space left");
    // The agent still responds; only the colony's disk is full.
    await waitFor("the agent to stay healthy", () => performance.now() - filledAtMs > 1.5 * degradedAfterMs);
    expect((await statusOf(colony)).agents.healthy).toBe(1);
    expect(colony.output).not.toContain("is degraded");
    expect(await countRows()).toBeGreaterThan(0);
    const stored = await countRows();
    disk.free();
    await waitFor("rows again", async () => (await countRows()) > stored, { details: () => colony.lastLines() });
    await waitFor("the problem gone from status", async () => (await statusOf(colony)).store.writeProblem === "");
    const events = await colony.sql("SELECT message FROM events WHERE kind = 'store-write-failed'");
    expect(events[0]?.["message"]).toContain("no space left");
    disk.fill();
    await waitFor("the problem again", async () => (await statusOf(colony)).store.writeProblem !== "");
    await colony.kill("SIGKILL");
    const full = await startColony({ home: colonyHome.path, port, waitUntilReady: false });
    // Stored rows can be read, and the colony reports the problem.
    await waitFor("the colony to start on a full disk", async () => (await statusOf(full)).store.writeProblem !== "", {
      details: () => full.lastLines(),
    });
    expect(Number((await full.sql("SELECT count(*) AS n FROM host_process"))[0]?.["n"])).toBeGreaterThan(0);
    await full.stop();
    disk.free();
    colony = await startColony({ home: colonyHome.path, port });
    await agent.stop();
    await using rest = await startLoadAgent({ home: agentHome.path, run: 1, pauseMs: 3_600_000 });
    await expectExactlyOnce(colony, loadAgentIdOf(agentHome.path), readLoadNotes(agentHome.path));
    expect((await statusOf(colony)).completeness).toMatchObject({ complete: true });
    await rest.stop();
    await colony.stop();
  });
});
