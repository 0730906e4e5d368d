/**
 * Golden rows of the segment manifest and its heads. They are the only record of which segment files are complete and what they contain.
 */

import { describe, expect, it } from "vitest";
import { TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import {
  ensureManifest,
  insertEntry,
  loadFilters,
  loadHeads,
  loadManifest,
  markLost,
  replaceEntry,
  type SegmentEntry,
  type StoredHead,
  saveHead,
} from "./segment-manifest.ts";

const epoch = "5f0c7c1e-3a52-4f7e-9d0b-6a1f0e6f2d11";
const nowUs = new TestClock().wallMs() * 1_000;
const filter = Buffer.from("042201fe08884011", "hex");

const stored: SegmentEntry = {
  agentId: "web-1-0badcafe",
  epoch,
  signal: "span",
  firstNumber: 1,
  number: 3,
  rowsBefore: 0,
  rows: 1_200,
  sizeBytes: 34_567,
  minTimeUs: nowUs - 60_000_000,
  maxTimeUs: nowUs,
  services: ["api", 'größe "x"'],
  schemaVersion: 1,
  sha256: "ab".repeat(32),
  storedAtUs: nowUs,
  state: "stored",
};
const lost: SegmentEntry = { ...stored, firstNumber: 4, number: 4, rowsBefore: 1_200, services: null, state: "lost" };
const head: StoredHead = { agentId: "web-1-0badcafe", epoch, signal: "span", number: 4, rows: 2_400, known: 3 };

const goldenManifest = [
  {
    agent_id: "web-1-0badcafe",
    epoch,
    signal: "span",
    first_number: 1,
    number: 3,
    rows_before: 0,
    rows: 1_200,
    bytes: 34_567,
    min_time: 1_767_225_540_000_000,
    max_time: 1_767_225_600_000_000,
    services: '["api","größe \\"x\\""]',
    lookup_filter: "042201FE08884011",
    schema_version: 1,
    sha256: "ab".repeat(32),
    stored_at: 1_767_225_600_000_000,
    state: "stored",
  },
  {
    agent_id: "web-1-0badcafe",
    epoch,
    signal: "span",
    first_number: 4,
    number: 4,
    rows_before: 1_200,
    rows: 1_200,
    bytes: 34_567,
    min_time: 1_767_225_540_000_000,
    max_time: 1_767_225_600_000_000,
    services: null,
    lookup_filter: null,
    schema_version: 1,
    sha256: "ab".repeat(32),
    stored_at: 1_767_225_600_000_000,
    state: "lost",
  },
];
const goldenHeads = [
  { agent_id: "web-1-0badcafe", epoch, signal: "span", number: 4, rows: 2_400, known: 3, updated_at: 1_767_225_600_000_000 },
];

async function openManifest() {
  const folder = temporaryFolder();
  const engine = await testEngine(folder.path);
  const database = await engine.attach("agent", folder.file("a.duckdb"), []);
  await ensureManifest(database);
  return {
    database,
    [Symbol.asyncDispose]: async () => {
      await engine.close();
      folder[Symbol.dispose]();
    },
  };
}

describe("the segment manifest", () => {
  it("is stored as golden rows", async () => {
    await using opened = await openManifest();
    const { database } = opened;
    await database.write(async (transaction) => {
      await insertEntry(transaction, { ...stored, firstNumber: 3, rowsBefore: 7, rows: 5 }, undefined);
      await replaceEntry(transaction, stored, filter);
      await insertEntry(transaction, { ...lost, state: "stored" }, undefined);
      await markLost(transaction, lost);
      await saveHead(transaction, head, nowUs);
    });
    const manifest = "SELECT * REPLACE (hex(lookup_filter) AS lookup_filter) FROM segment.manifest ORDER BY number";
    expect(await database.query(manifest)).toEqual(goldenManifest);
    expect(await database.query("SELECT * FROM segment.heads")).toEqual(goldenHeads);
  });

  it("is read back from golden rows", async () => {
    await using opened = await openManifest();
    const { database } = opened;
    await database.write(async (transaction) => {
      for (const { lookup_filter: bits, ...row } of goldenManifest) {
        const names = [...Object.keys(row), "lookup_filter"].join(", ");
        const places = [...Object.keys(row).map(() => "?"), "unhex(?)"].join(", ");
        await transaction.run(`INSERT INTO segment.manifest (${names}) VALUES (${places})`, [...Object.values(row), bits]);
      }
      for (const row of goldenHeads) await transaction.run("INSERT INTO segment.heads VALUES (?, ?, ?, ?, ?, ?, ?)", Object.values(row));
    });
    const entries = await loadManifest(database);
    expect(entries).toEqual([stored, lost]);
    const filters = await loadFilters(database, entries);
    expect([...filters].map(([{ number }, bits]) => [number, Buffer.from(bits)])).toEqual([[3, filter]]);
    expect(await loadHeads(database)).toEqual([head]);
  });
});
