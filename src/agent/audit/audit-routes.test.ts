import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import { noExtraRules } from "../../redact/index.ts";
import { openAgentStore } from "../../store/agent/index.ts";
import { openEngine } from "../../store/engine/index.ts";
import { audit, type Signal } from "../../store/signals/index.ts";
import type { AuditList, AuditVerification } from "../../tools/index.ts";
import type { JsonReply, JsonRouteContext } from "../../transport/index.ts";
import { AuditLog } from "./audit-log.ts";
import { auditRoutes } from "./audit-routes.ts";

async function openWorld() {
  const directory = mkdtempSync(join(tmpdir(), "coral-audit-routes-"));
  const engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 256 * 1024 * 1024, threads: 2, log: silentLogger });
  const signals = [audit] as unknown as Signal[];
  const store = await openAgentStore(engine, {
    file: join(directory, "a.duckdb"),
    signals,
    maxBytes: 1e9,
    clock: systemClock,
    log: silentLogger,
  });
  const log = await AuditLog.open({
    store,
    headFile: join(directory, "head"),
    colonyHeadsFile: join(directory, "colony-heads"),
    journalFile: join(directory, "journal"),
    redaction: () => noExtraRules,
    clock: systemClock,
    log: silentLogger,
  });
  const routes = auditRoutes({ agentId: "web-1", hostname: "web-1.host", log, store, clock: systemClock });
  const get = async <T>(path: string, query = ""): Promise<T> => {
    const route = routes.find((candidate) => candidate.kind === "json" && candidate.path === path);
    if (route?.kind !== "json") throw new Error(`no route ${path}`);
    expect(route.permission).toBe("admin");
    const reply: JsonReply = await route.handle({ query: new URLSearchParams(query) } as JsonRouteContext);
    return (reply.kind === "json" ? reply.value : undefined) as T;
  };
  const close = async (): Promise<void> => {
    await log.close();
    await store.close();
    await engine.close();
    rmSync(directory, { recursive: true, force: true });
  };
  return { store, log, get, [Symbol.asyncDispose]: close };
}

test("auditRoutes() lists commands with their outcome, and filters them", async () => {
  await using world = await openWorld();
  const fields = { kind: "exec", caller: "local:uid=1000", target: "host" };
  await world.log.note({ ...fields, phase: "begun", command_id: "c1", command: "ps aux", rule: "diagnostics" });
  await world.log.note({ ...fields, phase: "ended", command_id: "c1", command: "ps aux", reason: "exited", exit_code: 0 });
  await world.log.note({ ...fields, phase: "denied", command_id: "c2", command: "rm -rf /", caller: "token:ann", reason: "no" });
  await world.log.note({ kind: "anchor", phase: "noted" });
  const ids = async (query: string): Promise<string[]> => (await world.get<AuditList>("/v1/audit", query)).records.map(({ id }) => id);
  expect((await ids("")).toSorted()).toEqual(["c1", "c2"]);
  expect(await ids("user=ann")).toEqual(["c2"]);
  expect(await ids("command=PS")).toEqual(["c1"]);
  expect(await ids("outcome=denied")).toEqual(["c2"]);
  expect(await ids("target=container")).toEqual([]);
  expect(await ids("limit=1")).toHaveLength(1);
  expect(await ids("kind=anchor")).toEqual([""]);
  const { records } = await world.get<AuditList>("/v1/audit", "command=ps");
  expect(records[0]).toMatchObject({ agentId: "web-1", hostname: "web-1.host", phase: "ended", exitCode: 0, rule: "diagnostics" });
  await expect(ids("limit=0")).rejects.toMatchObject({ code: "invalid" });
  await expect(ids("outcome=maybe")).rejects.toMatchObject({ code: "invalid" });
});

test("auditRoutes() verifies the chain of this host", async () => {
  await using world = await openWorld();
  for (let index = 0; index < 3; index++) await world.log.note({ kind: "exec", phase: "begun", command: "ls", command_id: `c${index}` });
  expect(await world.get<AuditVerification>("/v1/audit/verify")).toMatchObject({ isWhole: true, chains: [{ entries: 3, where: "agent" }] });
  await world.store.query("UPDATE audit SET command = 'x' WHERE seq = 2");
  const answer = await world.get<AuditVerification>("/v1/audit/verify");
  expect(answer).toMatchObject({ isWhole: false, chains: [{ problems: [{ kind: "changed", entry: 2 }] }] });
});
