/** The audit with real daemons, and tampering with its files. */

import { cpSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { silentLogger } from "../../src/base/log.ts";
import { agentPaths } from "../../src/config/index.ts";
import { type AgentStore, openAgentStore } from "../../src/store/agent/index.ts";
import { openEngine } from "../../src/store/engine/index.ts";
import { chainStart } from "../../src/store/signals/hash-chain.ts";
import { audit, linkAuditEntry, type Signal } from "../../src/store/signals/index.ts";
import type { AuditEntries, AuditList, AuditVerification } from "../../src/tools/index.ts";
import { type AgentDaemon, type ColonyDaemon, startAgent, startColony } from "../support/daemon.ts";
import { coralJson, runCoral } from "../support/run-coral.ts";
import { makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

const config = "pull:\n  interval: 500ms\n";

interface World extends AsyncDisposable {
  home: string;
  colony: ColonyDaemon;
  agent: AgentDaemon;
}

async function startWorld(): Promise<World> {
  const home = makeTestHome();
  const colony = await startColony({ home: home.path, config });
  const world: World = {
    home: home.path,
    colony,
    agent: await startAgent({ home: home.path }),
    [Symbol.asyncDispose]: async () => {
      await world.agent.stop();
      await world.colony.stop();
      await home[Symbol.asyncDispose]();
    },
  };
  await waitFor("the agent to be connected", async () => {
    const { agents } = await colony.tool<{ agents: { connected: boolean }[] }>("coral_list_agents");
    return agents.some(({ connected }) => connected);
  });
  return world;
}

const exec = (world: World, command: string) => runCoral(["exec", "--all", command], { home: world.home });

const list = async (world: World, input: { kind?: string; outcome?: string }) =>
  (await world.colony.tool<AuditList>("coral_list_audit", input)).records;

/** Waits until the colony has pulled the agent's entries. */
async function pulled(world: World, count: number): Promise<AuditList["records"]> {
  let records: AuditList["records"] = [];
  await waitFor(`${count} records of the agent`, async () => {
    records = (await list(world, { kind: "exec" })).filter(({ agentId, phase }) => agentId !== null && phase !== "begun");
    return records.length >= count;
  });
  return records;
}

async function verify(world: World): Promise<{ code: number | null; answer: AuditVerification; problems: string[] }> {
  const { code, stdout } = await runCoral(["audit", "verify", "--json"], { home: world.home });
  const answer = JSON.parse(stdout) as AuditVerification;
  const problems = answer.chains.flatMap(({ agentId, where, problems: found }) =>
    found.map(({ kind, entry }) => `${agentId === null ? "colony" : "agent"} at ${where}: ${kind} ${entry}`),
  );
  return { code, answer, problems };
}

/** Stops the agent, changes its store, and starts it again. */
async function withAgentFile(world: World, work: (store: AgentStore) => Promise<void>): Promise<void> {
  await world.agent.stop();
  const { databaseFile } = agentPaths(world.home);
  {
    await using engine = await openEngine({
      dataDirectories: [dirname(databaseFile)],
      memoryLimitBytes: 128 * 1024 * 1024,
      threads: 1,
      log: silentLogger,
    });
    const clock = { wallMs: () => Date.now(), monotonicMs: () => performance.now() };
    const signals = [audit] as unknown as Signal[];
    await using store = await openAgentStore(engine, { file: databaseFile, signals, maxBytes: 1024 ** 3, clock, log: silentLogger });
    await work(store);
  }
  world.agent = await startAgent({ home: world.home });
  await waitFor("the agent to be checked again", async () => (await verify(world)).answer.chains.some(({ where }) => where === "agent"));
}

describe("the audit", () => {
  it("records callers and commands before and after each run, at colony and agent, and verifies", async () => {
    await using world = await startWorld();
    expect((await exec(world, "uptime")).code).toBe(0);
    expect((await exec(world, "rm -rf /")).code).toBe(3);
    await world.colony.sql("select 1");
    const records = await pulled(world, 2);
    expect(records.map(({ command, phase, through, exitCode }) => [command, phase, through, exitCode])).toEqual([
      ["rm -rf /", "denied", "cli", null],
      ["uptime", "ended", "cli", 0],
    ]);
    expect(records[1]?.caller).toMatch(/^local:uid=\d+$/);
    const shown = await coralJson<AuditEntries>(["audit", "show", records[1]?.id ?? ""], { home: world.home });
    expect(shown.entries.map(({ agentId, phase }) => [agentId === null ? "colony" : "agent", phase])).toEqual([
      ["colony", "asked"],
      ["colony", "ended"],
      ["agent", "begun"],
      ["agent", "ended"],
    ]);
    const { records: queries } = await coralJson<AuditList>(["audit", "list", "--kind", "sql"], { home: world.home });
    expect(queries[0]).toMatchObject({ command: "select 1", agentId: null, reason: "answered" });
    expect(await verify(world)).toMatchObject({ code: 0, problems: [], answer: { isWhole: true } });
    expect(
      (await world.colony.sql("select count(*) as n from information_schema.tables where table_name = 'audit'").catch(() => [])).length,
    ).toBeLessThan(2);
    await expect(world.colony.sql("select * from audit")).rejects.toThrow();
    await expect(world.colony.sql("select * from raw.audit")).rejects.toThrow();
    await expect(world.colony.sql("select * from audit.entries")).rejects.toThrow();
  });

  it("detects changed, removed and truncated entries in the agent's file", async () => {
    await using world = await startWorld();
    for (let number = 0; number < 3; number++) await exec(world, "uptime");
    await pulled(world, 3);
    await withAgentFile(world, async (store) => {
      await store.query("UPDATE audit SET command = 'ls' WHERE kind = 'exec' AND seq = (SELECT min(seq) FROM audit WHERE kind = 'exec')");
      await store.query("DELETE FROM audit WHERE seq = (SELECT min(seq) + 3 FROM audit WHERE kind = 'exec')");
    });
    const { code, problems } = await verify(world);
    expect(code).toBe(1);
    expect(problems.map((problem) => problem.replace(/\d+$/, "n"))).toEqual(["agent at agent: changed n", "agent at agent: missing n"]);
  });

  it("detects that the agent's whole chain was rewritten consistently", async () => {
    await using world = await startWorld();
    for (let number = 0; number < 3; number++) await exec(world, "uptime");
    await pulled(world, 3);
    await withAgentFile(world, async (store) => {
      let last = chainStart(store.epoch);
      for (const { time, seq: _seq, prev_hash: _prev, hash: _hash, ...row } of await store.query("SELECT * FROM audit ORDER BY seq")) {
        const command = row["kind"] === "exec" ? "date" : String(row["command"]);
        const linked = linkAuditEntry(last, { ...row, at: Number(time), command } as never);
        await store.query("UPDATE audit SET command = ?, prev_hash = ?, hash = ? WHERE seq = ?", [
          command,
          linked.prev_hash,
          linked.hash,
          linked.entry,
        ]);
        last = { entry: linked.entry, hash: linked.hash };
      }
      rmSync(join(agentPaths(world.home).directory, "audit-head.json"));
    });
    const { code, problems } = await verify(world);
    expect(code).toBe(1);
    expect(problems.map((problem) => problem.replace(/\d+$/, "n"))).toContain("agent at agent: rewritten n");
  });

  it("detects that the colony's store was rolled back, and that it was removed", async () => {
    await using world = await startWorld();
    const { port } = world.colony;
    const { dataDirectory } = world.colony.paths;
    const restart = async (change: () => void): Promise<void> => {
      await world.colony.stop();
      change();
      world.colony = await startColony({ home: world.home, port });
      await waitFor("the agent to be checked", async () => (await verify(world)).answer.chains.some(({ where }) => where === "agent"));
    };
    const snapshot = `${dataDirectory}.snapshot`;
    await exec(world, "uptime");
    await restart(() => cpSync(dataDirectory, snapshot, { recursive: true }));
    await exec(world, "uptime");
    const { answer, code } = await verify(world);
    expect(code).toBe(0);
    const last = answer.chains.find(({ agentId }) => agentId === null)?.lastEntry ?? 0;
    const heads = join(agentPaths(world.home).directory, "audit-colony-heads.json");
    await waitFor("the agent to receive the head", async () =>
      (JSON.parse(readFileSync(heads, "utf8")) as { entry: number }[]).some(({ entry }) => entry >= last),
    );
    await restart(() => {
      rmSync(dataDirectory, { recursive: true });
      cpSync(snapshot, dataDirectory, { recursive: true });
    });
    expect(await verify(world)).toMatchObject({ code: 1, problems: [expect.stringMatching(/^colony at colony: (?:cut|rewritten) \d+$/)] });
    await restart(() => rmSync(dataDirectory, { recursive: true }));
    const wiped = await runCoral(["audit", "verify"], { home: world.home });
    expect(wiped).toMatchObject({ code: 1, stdout: expect.stringContaining("the colony's store was removed or replaced") });
  });

  it("is kept while the colony is stopped, and pulled after its restart", async () => {
    await using world = await startWorld();
    const { port } = world.colony;
    await world.colony.stop();
    expect((await runCoral(["exec", "uptime"], { home: world.home })).code).toBe(0);
    const local = (await coralJson<AuditList>(["audit", "list", "--local"], { home: world.home })).records;
    expect(local).toMatchObject([{ command: "uptime", phase: "ended", exitCode: 0 }]);
    expect((await runCoral(["audit", "verify", "--local"], { home: world.home })).code).toBe(0);
    world.colony = await startColony({ home: world.home, port });
    expect((await pulled(world, 1))[0]).toMatchObject({ id: local[0]?.id, command: "uptime" });
    expect(await verify(world)).toMatchObject({ code: 0, problems: [] });
  });

  it("is complete after kill -9 of the agent in the middle of a command", async () => {
    await using world = await startWorld();
    const running = exec(world, "vmstat 1 100");
    await waitFor("the command to run", async () => (await list(world, { outcome: "open" })).some(({ agentId }) => agentId !== null));
    await world.agent.kill("SIGKILL");
    expect((await running).code).toBe(255);
    world.agent = await startAgent({ home: world.home });
    await waitFor("the end of the command", async () =>
      (await list(world, { kind: "exec" })).some(({ agentId, reason }) => agentId !== null && reason === "lost"),
    );
    const [record] = (await list(world, { kind: "exec" })).filter(({ agentId }) => agentId !== null);
    expect(record).toMatchObject({ phase: "ended", reason: "lost", command: "vmstat 1 100" });
    expect(await verify(world)).toMatchObject({ code: 0, problems: [] });
  });

  it("is complete after kill -9 of the colony in the middle of a command", async () => {
    await using world = await startWorld();
    const { port } = world.colony;
    const running = exec(world, "vmstat 1 100");
    await waitFor("the command to run", async () => (await list(world, { outcome: "open" })).some(({ agentId }) => agentId !== null));
    await world.colony.kill("SIGKILL");
    await running;
    world.colony = await startColony({ home: world.home, port });
    await waitFor("the agent's end of the command", async () =>
      (await list(world, { kind: "exec" })).some(({ agentId, phase }) => agentId !== null && phase === "ended"),
    );
    const [record] = await list(world, { kind: "exec" });
    const shown = await coralJson<AuditEntries>(["audit", "show", record?.id ?? ""], { home: world.home });
    expect(shown.entries.filter(({ agentId }) => agentId === null).map(({ phase, reason }) => [phase, reason])).toEqual([
      ["asked", ""],
      ["ended", "lost"],
    ]);
    expect(shown.entries.filter(({ agentId }) => agentId !== null).map(({ phase }) => phase)).toEqual(["begun", "ended"]);
    expect(await verify(world)).toMatchObject({ code: 0, problems: [] });
  });
});
