import { expect, test } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { sampleRuntime, sampleSidecar } from "../../model/runtime-facts.fixture.ts";
import type { Engine } from "../engine/engine.ts";
import { runReadOnlySql } from "../sql/read-only-sql.ts";
import { TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import { type ColonyStore, openColonyStore } from "./colony-store.ts";
import { upsertAgent } from "./registry-tables.ts";
import { forgetRuntime, listRuntimeHistory, loadRuntimes, storeRuntime } from "./runtime-tables.ts";

const open = (engine: Engine, file: string): Promise<ColonyStore> =>
  openColonyStore(engine, { file, signals: [], maxBytes: 1024 ** 3, log: silentLogger, clock: new TestClock() });

test("storeRuntime() keeps the newest and a history, also across a restart", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const passive = sampleSidecar("passive");
  const cri = sampleSidecar("cri");
  {
    await using store = await open(engine, folder.file("c.duckdb"));
    await storeRuntime(
      store,
      { agentId: "a", facts: passive, problems: [], updatedAt: 1_000_000 },
      { reason: "registration", changes: "" },
    );
    await storeRuntime(store, { agentId: "a", facts: cri, problems: ["x"], updatedAt: 2_000_000 }, { reason: "refresh", changes: "mode" });
    await storeRuntime(
      store,
      { agentId: "b", facts: sampleRuntime(), problems: [], updatedAt: 3_000_000 },
      { reason: "registration", changes: "" },
    );
  }
  await using store = await open(engine, folder.file("c.duckdb"));
  expect((await loadRuntimes(store)).toSorted((a, b) => a.agentId.localeCompare(b.agentId))).toEqual([
    { agentId: "a", facts: cri, problems: ["x"], updatedAt: 2_000_000 },
    { agentId: "b", facts: sampleRuntime(), problems: [], updatedAt: 3_000_000 },
  ]);
  expect(await listRuntimeHistory(store, "a", 10)).toEqual([
    {
      agentId: "a",
      changedAt: 2_000_000,
      runtimeType: "k8s-sidecar",
      sidecarMode: "cri",
      criType: "containerd",
      criVersion: "1.7.0",
      reason: "refresh",
      changes: "mode",
    },
    {
      agentId: "a",
      changedAt: 1_000_000,
      runtimeType: "k8s-sidecar",
      sidecarMode: "passive",
      criType: "",
      criVersion: "",
      reason: "registration",
      changes: "",
    },
  ]);
  await forgetRuntime(store, "a");
  expect((await loadRuntimes(store)).map(({ agentId }) => agentId)).toEqual(["b"]);
  expect(await listRuntimeHistory(store, "a", 10)).toHaveLength(2);
});

test("storeRuntime() limits the history of each agent", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  await using store = await open(engine, folder.file("c.duckdb"));
  for (let at = 1; at <= 205; at++) {
    const record = { agentId: "a", facts: sampleSidecar(at % 2 ? "cri" : "passive"), problems: [], updatedAt: at * 1_000 };
    await storeRuntime(store, record, { reason: "refresh", changes: "" });
  }
  const history = await listRuntimeHistory(store, "a", 1_000);
  expect(history).toHaveLength(200);
  expect(history.at(-1)?.changedAt).toBe(6_000);
});

test("the view agent_registry shows runtimes in SQL", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  await using store = await open(engine, folder.file("c.duckdb"));
  const registration = {
    hostname: "h",
    machineId: "m",
    bootId: "b",
    os: "o",
    kernel: "k",
    arch: "a",
    version: "0.1.0",
    epoch: "e",
    labels: {},
    capabilities: [],
  };
  for (const [agentId, facts] of [
    ["a", sampleSidecar("cri")],
    ["b", sampleSidecar("cri")],
    ["c", sampleSidecar("passive")],
    ["d", sampleRuntime()],
  ] as const) {
    await upsertAgent(store, { ...registration, agentId, protocolVersion: 2 }, 1_000);
    await storeRuntime(store, { agentId, facts, problems: [], updatedAt: 1_000 }, { reason: "registration", changes: "" });
  }
  await upsertAgent(store, { ...registration, agentId: "old", protocolVersion: 1 }, 1_000);
  const sql = `SELECT runtime_type, sidecar_mode, count(*) AS agent_count, avg(CASE WHEN can_exec THEN 1 ELSE 0 END) * 100 AS exec_pct
    FROM agent_registry WHERE NOT is_legacy GROUP BY runtime_type, sidecar_mode ORDER BY agent_count DESC, runtime_type`;
  const answer = await runReadOnlySql(store, {
    sql,
    maxRows: 10,
    maxBytes: 10_000,
    timeoutMs: 20_000,
    signal: new AbortController().signal,
  });
  expect(answer.rows.map((row) => row.map(String))).toEqual(
    [
      ["k8s-sidecar", "cri", "2", "100"],
      ["k8s-sidecar", "passive", "1", "0"],
      ["native", "null", "1", "100"],
    ].toSorted((a, b) => Number(b[2]) - Number(a[2])),
  );
});
