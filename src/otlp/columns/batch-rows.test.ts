import { describe, expect, it } from "vitest";
import { batchFromSegmentRows } from "../../store/segments/index.ts";
import { span } from "../../store/signals/index.ts";
import { rowsOf } from "./batch-rows.fixture.ts";
import { compact, concatBatches, selectRows } from "./batch-rows.ts";

const row = (index: number) => ({
  time: index,
  service: `service-${index % 3}`,
  trace_id: index.toString(16).padStart(32, "a"),
  span_id: index.toString(16).padStart(16, "b"),
  name: `name-${index}`,
  kind: "server",
  duration_ns: index * 10,
  status: "ok",
  weight: 1,
  ...(index % 2 === 0 ? { http_status_code: 200 + index, attributes: `{"i":${index}}` } : {}),
});
const rows = Array.from({ length: 20 }, (_, index) => row(index));
const batch = batchFromSegmentRows(span, rows);

describe("selectRows()", () => {
  it("keeps every kind of column, and nulls", () => {
    const chosen = [19, 0, 3, 8, 8];
    const expected = rowsOf(batchFromSegmentRows(span, chosen.map(row)));
    const selected = selectRows(batch, Uint32Array.from(chosen));
    expect(rowsOf(selected)).toEqual(expected);
    expect(rowsOf(compact(selected))).toEqual(expected);
  });

  it("makes a batch without rows", () => {
    expect(selectRows(batch, new Uint32Array(0)).rows).toBe(0);
  });
});

describe("compact()", () => {
  it("releases dictionary entries that no row uses", () => {
    const { name } = compact(selectRows(batch, Uint32Array.from([4]))).columns;
    expect(name?.kind === "dictionary" && [name.bytes.length, name.offsets.length]).toEqual([6, 2]);
  });
});

describe("concatBatches()", () => {
  it("concatenates rows, even if one batch lacks a column", () => {
    const odd = batchFromSegmentRows(span, [row(1), row(3)]);
    const { http_status_code: _code, attributes: _attributes, ...columns } = odd.columns;
    const lacking = { rows: 2, columns };
    const both = rowsOf(batch).concat(rowsOf(lacking));
    expect(rowsOf(concatBatches(batch, lacking))).toEqual(both);
    expect(rowsOf(concatBatches(lacking, batch))).toEqual([...rowsOf(lacking), ...rowsOf(batch)]);
    expect(concatBatches(batch, { rows: 0, columns: {} })).toBe(batch);
    expect(concatBatches({ rows: 0, columns: {} }, batch)).toBe(batch);
  });
});
