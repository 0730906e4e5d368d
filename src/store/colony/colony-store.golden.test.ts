/** Golden schema of a colony's file, and golden hashes of its migrations. */

import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { openColonyAudit } from "../audit/colony-audit.ts";
import type { Engine } from "../engine/engine.ts";
import { schemaSql } from "../schema-sql.fixture.ts";
import { derivedSignals, segmentSignals, signals } from "../signals/index.ts";
import { TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import { colonyMigrations } from "./colony-schema.ts";
import { type ColonyStore, openColonyStore } from "./colony-store.ts";

const header = `-- Tables of a colony's file, as the current build makes them. Released builds have files like this.
-- Tables of signals (schemas raw and rollup) may gain columns: add them to the signal's declaration.
-- Any other change needs a new migration in colony-schema.ts. Columns are never renamed, retyped or removed.
-- Then update this file: npx vitest run --project=unit colony-store.golden -u
`;
const goldenFile = new URL("./colony-store.golden.sql", import.meta.url);
const clock = new TestClock();

/** SHA-256 of each migration, without comments and white space. Add a line for a new migration; never change one. */
const migrationHashes: Record<number, string> = {
  1: "8d368b8cfb01d7a01af8918fb7d3fcc9c495745c890523be3646e51071feab5a",
  2: "423c198a04ba1c0d090b2f4f1be246e89cc6bae3914fb98890da84bebaa13770",
  3: "c1a47afa2a06622adb9b19a2820aff03a21c67e29f4ae61277d1e8d9fd2fa326",
  4: "5766d3f75bb89c316ec222baa71d6f8369bf2b8607765eaaf3ad2f386c9f3c66",
  5: "58f4e9b15b44cdd68c1b425c93157010cc61b77d0dbf37b2fe59ea586fb63ee5",
  6: "1bddb7280c236196fce0c0935c53d38da7470003189c0560c21974b8a0cf71b4",
  7: "6c45039673f618a2ad0f1c1a359dc9ad9d0ed8ec4fe65c253025ce5da402aa9d",
  8: "b966f319f405f4ee58817b0cbc94f1c4c2ae9a7b5471d8b387277ea06a842cd1",
};

async function open(engine: Engine, folder: ReturnType<typeof temporaryFolder>): Promise<ColonyStore> {
  const store = await openColonyStore(engine, {
    file: folder.file("colony.duckdb"),
    signals: [...signals, ...derivedSignals],
    segments: { signals: segmentSignals, directory: folder.path, maxBytes: 1024 ** 3 },
    maxBytes: 1024 ** 3,
    clock,
    log: silentLogger,
  });
  await openColonyAudit(store, { maxAgeMs: 86_400_000, maxRows: 1_000, clock });
  return store;
}

const goldenOf = async ({ database }: ColonyStore): Promise<string> =>
  header + (await schemaSql({ name: database.name, query: (sql, parameters) => database.query(sql, parameters) }));

describe("the schema of a colony's file", () => {
  it("is the golden one", async () => {
    expect(existsSync(goldenFile)).toBe(true);
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    await using store = await open(engine, folder);
    await expect(await goldenOf(store)).toMatchFileSnapshot(goldenFile.pathname);
  });

  it("opens a file with the golden schema and changes nothing in it", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const golden = readFileSync(goldenFile, "utf8");
    const version = Math.max(...Object.keys(migrationHashes).map(Number));
    await using before = await engine.attach("colony", folder.file("colony.duckdb"), [{ version, sql: golden }]);
    await before.close();
    await using store = await open(engine, folder);
    expect(await goldenOf(store)).toBe(golden);
    for (const { name } of store.publishedViews()) expect(await store.query(`SELECT * FROM ${name}`)).toEqual([]);
  });

  it("comes from migrations that are never edited once released", () => {
    const plain = (sql: string): string => sql.replaceAll(/--.*$/gm, "").replaceAll(/\s+/g, " ").trim();
    const hashes = colonyMigrations.map(({ version, sql }) => [version, createHash("sha256").update(plain(sql)).digest("hex")]);
    expect(Object.fromEntries(hashes)).toEqual(migrationHashes);
  });
});
