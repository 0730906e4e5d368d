import { expect, test } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { openColonyStore } from "../colony/colony-store.ts";
import { batchFromRows } from "../columns/column-batch.ts";
import { encodeBatch } from "../columns/column-codec.ts";
import { defineSignal, type Signal } from "../signals/define-signal.ts";
import { derivedSignals, segmentSignals, signals } from "../signals/signal-list.ts";
import { sample, sampleRow, TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import { columnMeaning, describedColumns } from "./column-meanings.ts";
import { viewDefinitions, viewSchema } from "./published-views.ts";
import { segmentView } from "./segment-views.ts";

const options = { maxBytes: 1024 ** 3, log: silentLogger, clock: new TestClock() };

test("every published view has the columns it declares, for all signals, with names that need no quotes", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  await using colony = await openColonyStore(engine, { file: folder.file("c.duckdb"), signals, ...options });
  const views = colony.publishedViews();
  const names = views.map(({ name }) => name);
  for (const signal of signals) {
    if (signal.isPrivate) expect(names).not.toContain(signal.name);
    else expect(names).toContain(signal.name);
    if (signal.rollup) expect(names).toEqual(expect.arrayContaining([`${signal.name}_1m`, `${signal.name}_10m`]));
  }
  expect(names).toEqual(expect.arrayContaining(["agents", "gaps", "events"]));
  for (const { name, columns, description } of views) {
    expect(description).not.toBe("");
    expect(await colony.query(`SELECT ${columns.map((column) => column.name).join(", ")} FROM ${name}`)).toEqual([]);
    const stored = await colony.query(
      "SELECT column_name AS name, data_type AS type FROM duckdb_columns() WHERE database_name = 'colony' AND schema_name = ? AND table_name = ? ORDER BY column_index",
      [viewSchema, name],
    );
    expect(stored).toEqual(columns);
  }
});

test("every column of every published view has a description, and every description a column", async () => {
  const all = [...new Set([...signals, ...derivedSignals])];
  const views = viewDefinitions(
    "colony",
    all,
    segmentSignals.map((signal) => segmentView(signal, "")),
  );
  const columns = views.flatMap((view) => view.columns.map((column) => [view.name, column.name] as const));
  expect(columns.filter(([view, column]) => columnMeaning(view, column) === "").map((path) => path.join("."))).toEqual([]);
  const unused = describedColumns().filter(
    ([view, column]) => !columns.some(([name, other]) => other === column && (view === "*" || view === name)),
  );
  expect(unused).toEqual([]);
});

test("a start without changes writes nothing, so that it succeeds on a full disk", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const file = folder.file("c.duckdb");
  const open = () => openColonyStore(engine, { file, signals: [...signals, ...derivedSignals], ...options });
  await (await open()).close();
  await using colony = await open();
  expect(await colony.database.size()).toMatchObject({ walBytes: 0 });
});

test("removes views of signals that no longer exist, and adds new columns", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const file = folder.file("c.duckdb");
  const { rollup: _rollup, ...plain } = sample;
  const old = defineSignal({ ...plain, columns: { label: "text" } });
  const gone = defineSignal({ ...plain, name: "gone", columns: {} });
  const first = await openColonyStore(engine, { file, signals: [old, gone] as unknown as Signal[], ...options });
  await first.close();
  const grown = defineSignal({ ...plain, columns: { label: "text", fresh: "int?" } });
  await using colony = await openColonyStore(engine, { file, signals: [grown] as unknown as Signal[], ...options });
  expect(colony.publishedViews().map(({ name }) => name)).toEqual([
    "sample",
    ...[
      "agents",
      "agent_registry",
      "agent_runtime_history",
      "gaps",
      "services",
      "service_instances",
      "connections",
      "edges",
      "endpoints",
      "events",
    ],
  ]);
  await expect(colony.query("SELECT * FROM gone")).rejects.toThrow("gone");
  // An agent of the older version does not send the new column.
  const batch = encodeBatch(batchFromRows(old, [{ at: 1, mono_ms: 1, label: "x" }]), 1);
  await colony.applyPulls([{ agentId: "a", epoch: "e", slices: [{ signal: "sample", oldestSeq: 1, nextSeq: 2, batch }], losses: [] }]);
  expect(await colony.query("SELECT label, fresh FROM sample")).toEqual([{ label: "x", fresh: null }]);
});

test("a time range with usual literals is read as UTC", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  await using colony = await openColonyStore(engine, {
    file: folder.file("c.duckdb"),
    signals: [sample] as unknown as Signal[],
    ...options,
  });
  const nowUs = Date.now() * 1_000;
  const rows = [0, 10, 600].map((ageS) => sampleRow(ageS, nowUs - ageS * 1_000_000));
  const batch = encodeBatch(batchFromRows(sample, rows), 1);
  await colony.applyPulls([{ agentId: "a", epoch: "e", slices: [{ signal: "sample", oldestSeq: 1, nextSeq: 4, batch }], losses: [] }]);
  const sql = "SELECT count(*) AS n FROM sample WHERE time > now() - INTERVAL 5 MINUTE AND agent_id = 'a'";
  expect(await colony.query(sql)).toEqual([{ n: 2 }]);
});
