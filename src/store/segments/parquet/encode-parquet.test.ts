import { writeFileSync } from "node:fs";
import duckdb from "@duckdb/node-bindings";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Connection } from "../../engine/connection.ts";
import type { Row } from "../../engine/sql-values.ts";
import { defineSegmentSignal } from "../../signals/define-segment-signal.ts";
import { seededRandom, temporaryFolder } from "../../store.fixture.ts";
import { batchFromSegmentRows } from "../batch-builder.ts";
import { type TickRow, tick, tickRow, tickRows } from "../segment.fixture.ts";
import { hexSql } from "../segment-source.ts";
import { encodeParquet } from "./encode-parquet.ts";
import type { SegmentBatch } from "./segment-batch.ts";

const folder = temporaryFolder();
let connection: Connection;
let files = 0;

beforeAll(async () => {
  connection = await Connection.open(await duckdb.open(":memory:", duckdb.create_config()));
});
afterAll(() => {
  connection.close();
  folder[Symbol.dispose]();
});

function written(signal: Parameters<typeof encodeParquet>[0], batch: SegmentBatch): string {
  const file = folder.file(`${files++}.parquet`);
  const { parts, sizeBytes } = encodeParquet(signal, batch);
  const all = Buffer.concat(parts);
  expect(all.length).toBe(sizeBytes);
  writeFileSync(file, all);
  return file;
}

const shown = Object.entries(tick.columns)
  .map(([name, type]) =>
    type === "id16" || type === "id8" ? `${hexSql(type, name)} AS ${name}` : type === "id8?" ? `${hexSql("id8", name)} AS ${name}` : name,
  )
  .join(", ");

/** Numbers as text, so that 1 and 1n are equal. */
const comparable = (row: Row | TickRow): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, typeof value === "bigint" || typeof value === "number" ? String(value) : value]),
  );

const byService = (rows: TickRow[]): TickRow[] => rows.toSorted((a, b) => (a.service < b.service ? -1 : a.service > b.service ? 1 : 0));

async function readBack(file: string): Promise<Record<string, unknown>[]> {
  return (await connection.query(`SELECT ${shown} FROM read_parquet('${file}', file_row_number = true) ORDER BY file_row_number`)).map(
    comparable,
  );
}

describe("encodeParquet()", () => {
  it.each([0, 1, 2, 7, 8, 9, 2_047, 2_049, 20_000, 20_001, 45_000])(
    "writes %i rows sorted by service, and reads them back",
    async (count) => {
      const rows = tickRows(count);
      const file = written(tick, batchFromSegmentRows(tick, rows));
      const back = await readBack(file);
      expect(back.length).toBe(count);
      const expected = byService(rows).map(comparable);
      for (const [index, row] of expected.entries())
        if (JSON.stringify(back[index]) !== JSON.stringify(row)) expect(back[index]).toEqual(row);
      const groups = await connection.query(`SELECT count(DISTINCT row_group_id) AS groups FROM parquet_metadata('${file}')`);
      expect(groups[0]?.["groups"]).toBe(Math.ceil(count / 20_000));
    },
  );

  it("has the declared types in DuckDB", async () => {
    const file = written(tick, batchFromSegmentRows(tick, []));
    const types = await connection.query(`DESCRIBE SELECT * FROM read_parquet('${file}')`);
    expect(Object.fromEntries(types.map((row) => [row["column_name"], row["column_type"]]))).toEqual({
      time: "TIMESTAMP",
      service: "VARCHAR",
      trace_id: "UUID",
      span_id: "UBIGINT",
      parent_id: "UBIGINT",
      name: "VARCHAR",
      body: "VARCHAR",
      amount: "BIGINT",
      size: "BIGINT",
      status: "INTEGER",
      code: "INTEGER",
      ratio: "DOUBLE",
      share: "DOUBLE",
      flag: "BOOLEAN",
      doubt: "BOOLEAN",
      seen: "TIMESTAMP",
    });
  });

  it("reads back random rows with any mix of nulls, repeats and texts", async () => {
    const random = seededRandom(11);
    for (let round = 0; round < 25; round++) {
      const count = Math.floor(random() * 400);
      const share = random();
      const repeats = 1 + Math.floor(random() * 50);
      const rows = Array.from({ length: count }, (): TickRow => {
        const row = tickRow(Math.floor(random() * repeats), Math.floor(random() * 4e15));
        for (const name of ["parent_id", "body", "size", "code", "share", "doubt", "seen"] as const) if (random() < share) row[name] = null;
        const text = Array.from({ length: Math.floor(random() * 12) }, () => String.fromCodePoint(1 + Math.floor(random() * 0xd7fe))).join(
          "",
        );
        return random() < 0.5 ? { ...row, name: text } : row;
      });
      expect(await readBack(written(tick, batchFromSegmentRows(tick, rows)))).toEqual(byService(rows).map(comparable));
    }
  });

  it("writes minima and maxima by which DuckDB skips row groups", async () => {
    const file = written(tick, batchFromSegmentRows(tick, tickRows(50_000)));
    const rows = await connection.query(
      `SELECT path_in_schema AS name, min(stats_min_value) AS low, max(stats_max_value) AS high, sum(stats_null_count) AS nulls FROM parquet_metadata('${file}') GROUP BY 1`,
    );
    const of = (name: string) => rows.find((row) => row["name"] === name);
    expect(of("service")).toMatchObject({ low: "service-0", high: "service-4", nulls: 0 });
    expect(of("time")).toMatchObject({ low: "2026-01-01 00:00:00", high: "2026-01-01 00:00:49.999" });
    expect(of("amount")?.["low"]).toBe("-9223372036854775808");
    expect(of("code")?.["nulls"]).toBe(25_000);
    const counted = await connection.query(
      `SELECT count(*) AS n FROM read_parquet('${file}') WHERE service = 'service-3' AND time >= TIMESTAMP '2026-01-01 00:00:40'`,
    );
    expect(counted[0]?.["n"]).toBe(2_000);
  });

  it("writes texts without a dictionary when there are too many", async () => {
    const rows = tickRows(20_000).map((row, index) => ({ ...row, name: `name ${index}` }));
    const file = written(tick, batchFromSegmentRows(tick, rows));
    const encodings = await connection.query(`SELECT encodings FROM parquet_metadata('${file}') WHERE path_in_schema = 'name'`);
    expect(encodings[0]?.["encodings"]).not.toContain("DICTIONARY");
    const counted = await connection.query(`SELECT count(DISTINCT name) AS n FROM read_parquet('${file}')`);
    expect(counted[0]?.["n"]).toBe(20_000);
  });

  it("repairs invalid UTF-8, also where two adjacent texts together would be valid", async () => {
    const signal = defineSegmentSignal({
      ...tick,
      name: "bytes",
      columns: { time: "time", service: "text", a: "text" },
      lookup: undefined as never,
    });
    const bytes = Uint8Array.from([0x61, 0xc3, 0xa9, 0x62, 0xff]);
    const batch: SegmentBatch = {
      rows: 3,
      columns: {
        time: { kind: "int64", values: new BigInt64Array(3) },
        service: { kind: "dictionary", codes: new Uint32Array(3), bytes: Buffer.from("s"), offsets: Uint32Array.of(0, 1) },
        a: { kind: "text", bytes, offsets: Uint32Array.of(0, 2, 4, 5) },
      },
    };
    const back = await connection.query(`SELECT a FROM read_parquet('${written(signal, batch)}')`);
    expect(back.map((row) => row["a"])).toEqual(["a\ufffd", "\ufffdb", "\ufffd"]);
  });

  it("accepts arrays longer than the rows, and treats a missing nullable column as null", async () => {
    const { columns } = batchFromSegmentRows(tick, tickRows(10));
    const { body: _, ...rest } = columns;
    const back = await readBack(written(tick, { rows: 4, columns: rest }));
    expect(back).toEqual(byService(tickRows(4)).map((row) => comparable({ ...row, body: null })));
  });

  it("rejects a batch that does not match the signal", () => {
    const batch = batchFromSegmentRows(tick, tickRows(4));
    const { name: _, ...missing } = batch.columns;
    expect(() => encodeParquet(tick, { rows: 4, columns: missing })).toThrow(`column "name" is missing`);
    expect(() => encodeParquet(tick, { rows: 5, columns: batch.columns })).toThrow("has fewer than 5 rows");
    const wrong = { ...batch.columns, time: { kind: "int32", values: new Int32Array(4) } as const };
    expect(() => encodeParquet(tick, { rows: 4, columns: wrong })).toThrow("is int32, not int64");
    const codes = {
      ...batch.columns,
      name: { kind: "dictionary", codes: Uint32Array.of(0, 9, 0, 0), bytes: new Uint8Array(1), offsets: Uint32Array.of(0, 1) } as const,
    };
    expect(() => encodeParquet(tick, { rows: 4, columns: codes })).toThrow("has code 9 and only 1 entries");
  });
});
