/** Golden rows of an agent's audit chain, with the details that later builds and colonies parse, and the golden head file beside it. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { noExtraRules } from "../../redact/index.ts";
import { type AgentStore, openAgentStore } from "../../store/agent/index.ts";
import { type Engine, openEngine, type Row } from "../../store/engine/index.ts";
import { type AuditRow, audit, type Signal } from "../../store/signals/index.ts";
import { AuditLog } from "./audit-log.ts";

const epoch = "5f0c7c1e-3a52-4f7e-9d0b-6a1f0e6f2d11";
const nextEpoch = "6d1f8c3a-0d55-4d0c-8a52-1f3f8e9c4b22";
const colonyLink = { entry: 12, hash: "c0".repeat(32) };
const clock = { wallMs: () => Date.UTC(2026, 0, 1), monotonicMs: () => 1_000_000 };

/** A command, an anchor, a pruning, and the first entry after the agent's store was replaced. */
const golden = readFileSync(new URL("./audit-log.golden.jsonl", import.meta.url), "utf8");
const goldenHead = `{"chainId":"${epoch}","entry":3,"hash":"ac81367375ebe1abb855a6d30bbb2e1f3c8e59942d284784748cd9508f1123ba"}\n`;

let directory: string;
let engine: Engine;
let store: AgentStore;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "coral-audit-golden-"));
  engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 256 * 1024 * 1024, threads: 2, log: silentLogger });
  const signals = [audit] as unknown as Signal[];
  store = await openAgentStore(engine, { file: join(directory, "a.duckdb"), signals, maxBytes: 1024 ** 3, clock, log: silentLogger });
});

afterEach(async () => {
  await store.close();
  await engine.close();
  rmSync(directory, { recursive: true, force: true });
});

const headFile = (): string => join(directory, "audit-head.json");

/** The store's own epoch is random. */
function openLog(storeEpoch = epoch): Promise<AuditLog> {
  return AuditLog.open({
    store: { epoch: storeEpoch, append: store.append.bind(store), query: store.query.bind(store), heads: store.heads.bind(store) },
    headFile: headFile(),
    colonyHeadsFile: `${headFile()}.colony`,
    journalFile: `${headFile()}.journal`,
    redaction: () => noExtraRules,
    clock,
    log: silentLogger,
  });
}

async function writeChain(): Promise<void> {
  await using log = await openLog();
  await log.write({
    phase: "ended",
    commandId: "0b0e1f4c-8f1e-4f0e-a2ce-6c1a3d1f7a01",
    kind: "exec",
    caller: { name: "local:uid=1000", from: "unix socket", through: "cli", questionId: "q-7" },
    target: "host",
    where: "host",
    command: "ps aux",
    rule: "diagnostics",
    user: "nobody",
    reason: "exited",
    exitCode: 0,
    stdoutBytes: 12,
    stderrBytes: 3,
    durationMs: 3.7,
    recording: "0b0e1f4c-8f1e-4f0e-a2ce-6c1a3d1f7a01.cast",
    recordingSha256: "00ff",
  });
  await log.anchor({ colonyId: "", chainId: "colony-chain", ...colonyLink });
  await log.settled();
  await log.beforePrune({ firstSeq: 1, lastSeq: 1 });
}

const storedLines = (rows: readonly Row[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join("");

function goldenRows(): AuditRow[] {
  const rows = golden
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Row);
  return rows.map(({ seq: _seq, time, ...rest }) => ({ ...rest, at: time }) as unknown as AuditRow);
}

describe("the agent's audit chain", () => {
  it("is stored as golden rows", async () => {
    await writeChain();
    expect(readFileSync(headFile(), "utf8")).toBe(goldenHead);
    await (await openLog(nextEpoch)).close();
    expect(storedLines(await store.query("SELECT * FROM audit ORDER BY seq"))).toBe(golden);
  });

  it("verifies golden rows after their beginning was pruned, and finds the anchor", async () => {
    await store.append(audit, goldenRows().slice(0, 3));
    writeFileSync(headFile(), goldenHead);
    await store.query("DELETE FROM audit WHERE seq = 1");
    await using log = await openLog();
    expect(await log.verify()).toMatchObject({ entries: 2, firstEntry: 2, head: { entry: 3 }, problems: [] });
    expect(await log.anchors(10)).toEqual([{ colonyId: "", chainId: "colony-chain", ...colonyLink }]);
  });

  it("reports a chain that ends before the entry of a golden head file", async () => {
    await store.append(audit, goldenRows().slice(0, 2));
    writeFileSync(headFile(), goldenHead);
    await using log = await openLog();
    const [note] = await store.query("SELECT * FROM audit WHERE kind = 'chain'");
    expect(note).toMatchObject({ phase: "noted", target: "chain", reason: "broken" });
    const { problem, remembered } = JSON.parse(String(note?.["details"])) as Record<string, unknown>;
    expect(typeof problem).toBe("string");
    expect(remembered).toEqual(JSON.parse(goldenHead));
    expect((await log.verify()).problems).toMatchObject([{ kind: "cut", entry: 3 }]);
  });
});
