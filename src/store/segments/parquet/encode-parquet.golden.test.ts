/**
 * Golden segment files. A new build must read segments of the previous one, and `hasOwnFooter()` compares footers byte by byte. One golden
 * has no compressed pages and is compared as a whole. The other has dictionaries and Brotli; since Brotli's output may change between zlib
 * versions, its uncompressed parts are compared.
 */

import { readFileSync, writeFileSync } from "node:fs";
import duckdb from "@duckdb/node-bindings";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Connection } from "../../engine/connection.ts";
import { temporaryFolder } from "../../store.fixture.ts";
import { batchFromSegmentRows } from "../batch-builder.ts";
import { tick, tickRows } from "../segment.fixture.ts";
import { hasOwnFooter } from "./check-footer.ts";
import { encodeParquet } from "./encode-parquet.ts";
import { parquetParts } from "./parquet-parts.fixture.ts";
import type { BatchColumn, DictionaryColumn, SegmentBatch } from "./segment-batch.ts";

/** Base64 by name. */
const golden = JSON.parse(readFileSync(new URL("./encode-parquet.golden.json", import.meta.url), "utf8")) as Record<string, string>;
const goldenFile = (name: string): Buffer => Buffer.from(golden[name] ?? "", "base64");

const plainBatch = withoutDictionaries(batchFromSegmentRows(tick, tickRows(3)));
const compressedBatch = batchFromSegmentRows(tick, tickRows(120));

const folder = temporaryFolder();
let connection: Connection;
beforeAll(async () => {
  connection = await Connection.open(await duckdb.open(":memory:", duckdb.create_config()));
});
afterAll(() => {
  connection.close();
  folder[Symbol.dispose]();
});

/** Short texts without a dictionary are not compressed. */
function withoutDictionaries({ rows, columns }: SegmentBatch): SegmentBatch {
  const plain = Object.entries(columns).map(([name, column]) => [name, column.kind === "dictionary" ? textOf(column) : column]);
  return { rows, columns: Object.fromEntries(plain) as Record<string, BatchColumn> };
}

function textOf({ codes, bytes, offsets, present }: DictionaryColumn): BatchColumn {
  const parts = Array.from(codes, (code) => bytes.subarray(offsets[code], offsets[code + 1]));
  const ends = Uint32Array.from(parts, (_, index) => parts.slice(0, index + 1).reduce((sum, part) => sum + part.length, 0));
  return { kind: "text", bytes: Buffer.concat(parts), offsets: Uint32Array.of(0, ...ends), ...(present && { present }) };
}

const encoded = (batch: SegmentBatch): Buffer => Buffer.concat(encodeParquet(tick, batch).parts);

/** As JSON, because the driver returns bigints. */
async function readRows(file: string): Promise<string[]> {
  const rows = await connection.query(`SELECT to_json(t)::VARCHAR AS row FROM (SELECT * FROM read_parquet('${file}')) t`);
  return rows.map((row) => String(row["row"]));
}

describe("the segment file format", () => {
  it("is written byte for byte without compression", () => {
    expect(parquetParts(encoded(plainBatch))).toEqual(parquetParts(goldenFile("plain")));
    expect(JSON.stringify(parquetParts(goldenFile("plain")).footer)).not.toContain('"4":4');
    expect(encoded(plainBatch).toString("hex")).toBe(goldenFile("plain").toString("hex"));
  });

  it("is written part by part with dictionaries and compression", () => {
    expect(parquetParts(encoded(compressedBatch))).toEqual(parquetParts(goldenFile("compressed")));
  });

  it.each([
    ["plain", plainBatch],
    ["compressed", compressedBatch],
  ])("is read back from the %s golden", async (name, batch) => {
    const [stored, fresh] = [folder.file(`${name}.golden.parquet`), folder.file(`${name}.parquet`)];
    writeFileSync(stored, goldenFile(name));
    writeFileSync(fresh, encoded(batch));
    expect(hasOwnFooter(tick, stored, batch.rows)).toBe(true);
    expect(await readRows(stored)).toEqual(await readRows(fresh));
    expect(await readRows(stored)).toHaveLength(batch.rows);
  });

  it("reads the values that were written", async () => {
    const file = folder.file("values.parquet");
    writeFileSync(file, goldenFile("plain"));
    expect(JSON.parse((await readRows(file))[1] ?? "")).toEqual({
      time: "2026-01-01 00:00:00.001",
      service: "service-2",
      trace_id: "00000000-9e37-79b1-0000-0004538453d7",
      span_id: 10_617_743_044,
      parent_id: 7_963_307_283,
      name: "name 1 \u{1f41a}",
      body: "",
      amount: 1_000_000_007,
      size: -1,
      status: 1,
      code: 2_147_483_646,
      ratio: 1 / 7,
      share: -1 / 3,
      flag: false,
      doubt: true,
      seen: "2026-01-01 00:00:00.000995",
    });
  });
});
