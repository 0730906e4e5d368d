/** Golden names of segment and write-ahead files. A new build must find the files of the previous one by name. */

import { copyFileSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import { adoptSegments } from "./adopt-segments.ts";
import { batchFromSegmentRows } from "./batch-builder.ts";
import { encodeParquet } from "./parquet/encode-parquet.ts";
import { tick, tickRows } from "./segment.fixture.ts";
import { segmentPath, writeAheadNumber, writeAheadPath } from "./segment-files.ts";
import { ensureManifest } from "./segment-manifest.ts";

const epoch = "5f0c7c1e-3a52-4f7e-9d0b-6a1f0e6f2d11";
const source = { agentId: "web-1.example-0badcafe", epoch, signal: "tick" };

const golden = {
  atAgent: "/segments/tick/000000007.parquet",
  merged: "/segments/tick/000000007-000000012.parquet",
  atColony: `/segments/tick/web-1.example-0badcafe~${epoch}/000000007.parquet`,
  longNumber: "/segments/tick/1234567890.parquet",
  writeAhead: "/wal/tick/000000007.wal",
};

describe("the names of segment files", () => {
  it("are built from agent, epoch, signal and number", () => {
    expect({
      atAgent: segmentPath("/segments", { ...source, agentId: "", firstNumber: 7, number: 7 }),
      merged: segmentPath("/segments", { ...source, agentId: "", firstNumber: 7, number: 12 }),
      atColony: segmentPath("/segments", { ...source, firstNumber: 7, number: 7 }),
      longNumber: segmentPath("/segments", { ...source, agentId: "", firstNumber: 1_234_567_890, number: 1_234_567_890 }),
      writeAhead: writeAheadPath("/wal", "tick", 7),
    }).toEqual(golden);
  });

  it("are parsed from write-ahead files", () => {
    expect(["000000007.wal", "1234567890.wal", "000000007.parquet", "x.wal"].map(writeAheadNumber)).toEqual([
      7,
      1_234_567_890,
      undefined,
      undefined,
    ]);
  });

  it("are parsed from segments whose manifest was lost", async () => {
    using folder = temporaryFolder();
    const names = [
      `tick/web-1.example-0badcafe~${epoch}/000000007.parquet`,
      `tick/web-1.example-0badcafe~${epoch}/000000008-000000012.parquet`,
    ];
    const content = folder.file("content.parquet");
    writeFileSync(content, Buffer.concat(encodeParquet(tick, batchFromSegmentRows(tick, tickRows(2))).parts));
    for (const name of names) {
      mkdirSync(dirname(folder.file(name)), { recursive: true });
      copyFileSync(content, folder.file(name));
    }
    await using engine = await testEngine(folder.path);
    const database = await engine.attach("colony", folder.file("c.duckdb"), []);
    await ensureManifest(database);
    const host = { database, root: folder.path, log: silentLogger, nowUs: new TestClock().wallMs() * 1_000 };
    const { entries, heads } = await adoptSegments(host, [tick], () => false);
    expect(entries).toMatchObject([
      { ...source, firstNumber: 7, number: 7, rowsBefore: 0 },
      { ...source, firstNumber: 8, number: 12, rowsBefore: 2 },
    ]);
    expect(heads).toMatchObject([{ ...source, number: 12, rows: 4 }]);
    expect(readdirSync(dirname(folder.file(names[0] ?? "")))).toHaveLength(2);
  });
});
