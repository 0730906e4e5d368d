/** Golden schema of an agent's file. */

import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import type { Engine } from "../engine/engine.ts";
import { schemaSql } from "../schema-sql.fixture.ts";
import { segmentSignals, signals } from "../signals/index.ts";
import { TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import { type AgentStore, openAgentStore } from "./agent-store.ts";

const header = `-- Tables of an agent's file, as the current build makes them. Released builds have files like this.
-- Tables of signals (schema main) may gain columns: add them to the signal's declaration.
-- Any other change needs a new migration in agent-store.ts. Columns are never renamed, retyped or removed.
-- Then update this file: npx vitest run --project=unit agent-store.golden -u
`;
const goldenFile = new URL("./agent-store.golden.sql", import.meta.url);
/** The last migration that the golden includes. */
const version = 2;

function open(engine: Engine, folder: ReturnType<typeof temporaryFolder>): Promise<AgentStore> {
  return openAgentStore(engine, {
    file: folder.file("agent.duckdb"),
    signals,
    segments: {
      signals: segmentSignals,
      directory: folder.path,
      maxBytes: 1024 ** 3,
      seal: () => Promise.reject(new Error("nothing to seal")),
    },
    maxBytes: 1024 ** 3,
    clock: new TestClock(),
    log: silentLogger,
  });
}

const goldenOf = async (store: AgentStore): Promise<string> =>
  header + (await schemaSql({ name: "agent", query: (sql, parameters) => store.query(sql, parameters) }));

describe("the schema of an agent's file", () => {
  it("is the golden one", async () => {
    expect(existsSync(goldenFile)).toBe(true);
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    await using store = await open(engine, folder);
    await expect(await goldenOf(store)).toMatchFileSnapshot(goldenFile.pathname);
    expect((await store.query("SELECT max(version) AS version FROM schema_version"))[0]).toEqual({ version });
  });

  it("opens a file with the golden schema and changes nothing in it", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const golden = readFileSync(goldenFile, "utf8");
    await using before = await engine.attach("agent", folder.file("agent.duckdb"), [{ version, sql: golden }]);
    await before.write(async (transaction) => {
      await transaction.run("INSERT INTO internal.meta VALUES ('epoch', '5f0c7c1e-3a52-4f7e-9d0b-6a1f0e6f2d11')");
      await transaction.run("INSERT INTO internal.heads VALUES ('host', 42)");
      await transaction.run("INSERT INTO internal.losses VALUES ('host', 'queue-full', 7)");
    });
    await before.close();
    await using store = await open(engine, folder);
    expect(await goldenOf(store)).toBe(golden);
    expect(store.epoch).toBe("5f0c7c1e-3a52-4f7e-9d0b-6a1f0e6f2d11");
    expect(store.heads().get("host")).toEqual({ oldestSeq: 42, nextSeq: 42 });
    expect(store.losses()).toEqual([{ signal: "host", reason: "queue-full", rows: 7 }]);
  });
});
