import { once } from "node:events";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { expect, test } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { seededRandom, smallDisk, spawnProgram, temporaryFolder, testEngine } from "../store.fixture.ts";
import type { Database } from "./database.ts";
import { openEngine } from "./engine.ts";

const migrations = [{ version: 1, sql: "CREATE TABLE t (i BIGINT, s VARCHAR)" }];

function garbage(sizeBytes: number): Buffer {
  const random = seededRandom(7);
  return Buffer.from(Array.from({ length: sizeBytes }, () => Math.floor(random() * 256)));
}

function overwrite(file: string, offset: number, bytes: Buffer): void {
  const descriptor = openSync(file, "r+");
  writeSync(descriptor, bytes, 0, bytes.length, offset);
  closeSync(descriptor);
}

async function fill(database: Database, rows: number): Promise<void> {
  await database.write((transaction) => transaction.run(`INSERT INTO t SELECT range, 'value-' || hash(range) FROM range(${rows})`));
}

async function count(database: Database): Promise<unknown> {
  return (await database.query("SELECT count(s) AS n FROM t"))[0]?.["n"];
}

/** A file with 20,000 checkpointed rows and 5,000 in its log, as left by a killed process. */
async function crashedFile(folder: string): Promise<string> {
  const file = `${folder}/t.duckdb`;
  const program = `
    const duckdb = require("@duckdb/node-bindings");
    const connection = await duckdb.connect(await duckdb.open(":memory:"));
    await duckdb.query(connection, "ATTACH '" + process.argv[2] + "' AS a (BLOCK_SIZE 16384)");
    await duckdb.query(connection, "USE a; CREATE TABLE schema_version (version INTEGER, applied_at TIMESTAMP); INSERT INTO schema_version VALUES (1, now()::TIMESTAMP)");
    await duckdb.query(connection, "CREATE TABLE t AS SELECT range::BIGINT AS i, 'value-' || hash(range) AS s FROM range(20000); CHECKPOINT a");
    await duckdb.query(connection, "INSERT INTO t SELECT range, 'log' FROM range(5000)");
    process.kill(process.pid, "SIGKILL");
  `;
  await once(spawnProgram(program, folder, [file]), "exit");
  return file;
}

test("openEngine() rejects a second engine in one process, and allows one after the first is closed", async () => {
  using folder = temporaryFolder();
  const first = await testEngine(folder.path);
  await expect(testEngine(folder.path)).rejects.toMatchObject({ code: "already-exists" });
  await first.close();
  await first.close();
  await (await testEngine(folder.path)).close();
});

test("an engine confines SQL to its directories, its settings and UTC", async () => {
  using folder = temporaryFolder();
  using other = temporaryFolder();
  writeFileSync(other.file("x.csv"), "a\n1\n");
  const zone = process.env["TZ"];
  process.env["TZ"] = "America/New_York";
  await using engine = await testEngine(folder.path);
  if (zone === undefined) delete process.env["TZ"];
  else process.env["TZ"] = zone;
  const database = await engine.attach("t", folder.file("t.duckdb"), migrations);
  for (const sql of [
    `SELECT * FROM '${other.file("x.csv")}'`,
    "SELECT * FROM read_text('/etc/hostname')",
    `ATTACH '${other.file("y.duckdb")}' AS y`,
  ]) {
    await expect(database.query(sql)).rejects.toMatchObject({
      code: "invalid",
      message: expect.stringContaining("disabled by configuration"),
    });
  }
  await expect(database.query("SET memory_limit = '10GB'")).rejects.toThrow("locked");
  await expect(database.query("INSTALL httpfs")).rejects.toThrow();
  expect(await database.query("SELECT current_setting('TimeZone') AS zone")).toEqual([{ zone: "UTC" }]);
  await expect(engine.attach("y", other.file("y.duckdb"), [])).rejects.toMatchObject({ code: "invalid" });
});

test("attach() applies migrations once and in order, and keeps existing rows", async () => {
  using folder = temporaryFolder();
  const file = folder.file("t.duckdb");
  {
    await using engine = await testEngine(folder.path);
    const database = await engine.attach("t", file, migrations);
    expect(database.opened).toEqual({ how: "created" });
    await fill(database, 10);
  }
  await using engine = await testEngine(folder.path);
  const next = [...migrations, { version: 2, sql: "ALTER TABLE t ADD COLUMN extra INTEGER; UPDATE t SET extra = i" }];
  const database = await engine.attach("t", file, next);
  expect(database.opened).toEqual({ how: "existing" });
  expect(await database.query("SELECT sum(extra) AS total FROM t")).toEqual([{ total: 45 }]);
  expect(await database.query("SELECT version FROM schema_version ORDER BY version")).toEqual([{ version: 1 }, { version: 2 }]);
});

test("attach() rejects a file of a newer build and does not change it", async () => {
  using folder = temporaryFolder();
  const file = folder.file("t.duckdb");
  await using engine = await testEngine(folder.path);
  await (await engine.attach("t", file, [...migrations, { version: 2, sql: "SELECT 1" }])).close();
  await expect(engine.attach("t", file, migrations)).rejects.toMatchObject({ code: "unsupported", details: { stored: 2, known: 1 } });
  expect(readdirSync(folder.path)).toEqual(["t.duckdb"]);
});

test("attach() rolls back a failed migration", async () => {
  using folder = temporaryFolder();
  const file = folder.file("t.duckdb");
  await using engine = await testEngine(folder.path);
  const broken = [...migrations, { version: 2, sql: "CREATE TABLE half (i INTEGER); SELECT * FROM missing" }];
  await expect(engine.attach("t", file, broken)).rejects.toThrow("missing");
  const database = await engine.attach("t", file, migrations);
  await expect(database.query("SELECT * FROM half")).rejects.toThrow("half");
});

test.for<[string, (file: string) => void]>([
  ["random bytes", (file) => writeFileSync(file, garbage(50_000))],
  ["an empty file", (file) => truncateSync(file, 0)],
  ["a bad main header", (file) => overwrite(file, 12, garbage(200))],
  ["bad database headers", (file) => overwrite(file, 4_096, garbage(8_192))],
  ["a bad first block", (file) => overwrite(file, 12_288, garbage(16_384))],
  ["bad table metadata", (file) => overwrite(file, statSync(file).size - 32_768, garbage(32_768))],
  ["a file cut in half", (file) => truncateSync(file, statSync(file).size >> 1)],
  ["a file cut inside its header", (file) => truncateSync(file, 100)],
  ["a log of random bytes", (file) => writeFileSync(`${file}.wal`, garbage(50_000))],
  ["a log with a damaged record", (file) => overwrite(`${file}.wal`, 2_000, garbage(100))],
])("attach() moves %s aside and starts with an empty file", async ([, damage]) => {
  using folder = temporaryFolder();
  const file = await crashedFile(folder.path);
  damage(file);
  await using engine = await testEngine(folder.path);
  const database = await engine.attach("t", file, migrations);
  expect(database.opened).toMatchObject({ how: "recovered", keptCheckpoint: false, reason: expect.any(String) });
  const movedTo = database.opened.how === "recovered" ? database.opened.movedTo : "";
  expect(movedTo).toMatch(/t\.duckdb\.damaged-\d{8}T\d{6}\.\d{3}Z$/);
  expect(existsSync(movedTo) && existsSync(`${movedTo}.wal`)).toBe(true);
  expect(await count(database)).toBe(0);
  await fill(database, 5);
  expect(await count(database)).toBe(5);
});

test("attach() detects a cleanly closed file that was cut in half", async () => {
  using folder = temporaryFolder();
  const file = folder.file("t.duckdb");
  {
    await using engine = await testEngine(folder.path);
    const database = await engine.attach("t", file, migrations, { blockBytes: 16_384 });
    // After some checkpoints, table metadata is stored before the rows, and ATTACH does not notice a cut behind it.
    for (let round = 0; round < 4; round++) {
      await fill(database, 20_000);
      await database.checkpoint();
    }
  }
  truncateSync(file, statSync(file).size >> 1);
  await using engine = await testEngine(folder.path);
  const database = await engine.attach("t", file, migrations);
  expect(database.opened).toMatchObject({ how: "recovered" });
  expect(await count(database)).toBe(0);
});

test("attach() accepts a file that was opened and closed many times while it grew and shrank", async () => {
  using folder = temporaryFolder();
  for (let round = 0; round < 12; round++) {
    await using engine = await testEngine(folder.path);
    const database = await engine.attach("t", folder.file("t.duckdb"), migrations);
    expect(database.opened.how).toBe(round === 0 ? "created" : "existing");
    await fill(database, 20_000);
    if (round % 3 === 2) await database.write((transaction) => transaction.run("DELETE FROM t WHERE rowid > 1000"));
  }
});

test("attach() reads a log truncated by a crash", async () => {
  using folder = temporaryFolder();
  const file = await crashedFile(folder.path);
  await using engine = await testEngine(folder.path);
  const whole = await engine.attach("t", file, migrations);
  expect(whole.opened).toEqual({ how: "existing" });
  expect(await count(whole)).toBe(25_000);
});

test("attach() with keepCheckpoint discards only a damaged log", async () => {
  using folder = temporaryFolder();
  const file = await crashedFile(folder.path);
  writeFileSync(`${file}.wal`, garbage(50_000));
  await using engine = await testEngine(folder.path);
  const database = await engine.attach("t", file, migrations, { keepCheckpoint: true });
  expect(database.opened).toMatchObject({ how: "recovered", keptCheckpoint: true });
  expect(await count(database)).toBe(20_000);
});

test("attach() with keepCheckpoint starts with an empty file if the file is damaged too", async () => {
  using folder = temporaryFolder();
  const file = await crashedFile(folder.path);
  writeFileSync(`${file}.wal`, garbage(50_000));
  overwrite(file, 4_096, garbage(8_192));
  await using engine = await testEngine(folder.path);
  const database = await engine.attach("t", file, migrations, { keepCheckpoint: true });
  expect(database.opened).toMatchObject({ how: "recovered", keptCheckpoint: false });
  expect(await count(database)).toBe(0);
});

test("attach() treats a log without its file as damage", async () => {
  using folder = temporaryFolder();
  const file = folder.file("t.duckdb");
  writeFileSync(`${file}.wal`, garbage(1_000));
  await using engine = await testEngine(folder.path);
  expect((await engine.attach("t", file, migrations)).opened.how).toBe("recovered");
});

test("a block that fails its checksum in use is `corrupt`, and the file is moved aside at the next open", async () => {
  using folder = temporaryFolder();
  const file = await crashedFile(folder.path);
  {
    await using engine = await testEngine(folder.path);
    // Clean shutdown: all rows are in the file.
    await (await engine.attach("t", file, migrations)).close();
  }
  for (let offset = 12_288 + 16_384 * 4; offset < statSync(file).size - 16_384 * 8; offset += 16_384)
    overwrite(file, offset + 100, garbage(500));
  {
    await using engine = await testEngine(folder.path);
    const database = await engine.attach("t", file, migrations);
    expect(database.opened).toEqual({ how: "existing" });
    expect(database.damage).toBeUndefined();
    await expect(database.query("SELECT sum(hash(s)) FROM t")).rejects.toMatchObject({ code: "corrupt" });
    expect(database.damage).toContain("checksum");
  }
  await using engine = await testEngine(folder.path);
  expect((await engine.attach("t", file, migrations)).opened).toMatchObject({
    how: "recovered",
    reason: expect.stringContaining("checksum"),
  });
  expect(existsSync(`${file}.corrupt`)).toBe(false);
});

test("attach() keeps the three newest damaged files", async () => {
  using folder = temporaryFolder();
  const file = folder.file("t.duckdb");
  for (let index = 0; index < 5; index++) {
    writeFileSync(file, `no database ${index}`);
    await using engine = await testEngine(folder.path);
    expect((await engine.attach("t", file, migrations)).opened).toMatchObject({ how: "recovered" });
  }
  const kept = readdirSync(folder.path).filter((name) => name.startsWith("t.duckdb.damaged-"));
  expect(kept.sort().map((name) => readFileSync(folder.file(name), "utf8"))).toEqual(["no database 2", "no database 3", "no database 4"]);
});

test("attach() with a reason to discard moves an intact file aside", async () => {
  using folder = temporaryFolder();
  const file = folder.file("t.duckdb");
  await using engine = await testEngine(folder.path);
  await (await engine.attach("t", file, migrations)).close();
  const database = await engine.attach("t", file, migrations, { discard: "its sequences have a hole" });
  expect(database.opened).toMatchObject({ how: "recovered", reason: "its sequences have a hole" });
});

test("attach() reports which process has the file open, and does not move it", async () => {
  using folder = temporaryFolder();
  const file = folder.file("t.duckdb");
  const program = `
    const duckdb = require("@duckdb/node-bindings");
    const connection = await duckdb.connect(await duckdb.open(":memory:"));
    await duckdb.query(connection, "ATTACH '" + process.argv[2] + "' AS a");
    console.log("open");
    setInterval(() => connection, 1000);
  `;
  const holder = spawnProgram(program, folder.path, [file]);
  try {
    await once(holder.stdout!, "data");
    await using engine = await testEngine(folder.path);
    await expect(engine.attach("t", file, migrations)).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining(`process ${holder.pid} (`),
    });
  } finally {
    holder.kill("SIGKILL");
    await once(holder, "exit");
  }
  await using engine = await testEngine(folder.path);
  // It left a file without a schema, which is as good as a new one.
  expect((await engine.attach("t", file, migrations)).opened).toEqual({ how: "created" });
  expect(readdirSync(folder.path).filter((name) => name.includes("damaged"))).toEqual([]);
});

test("attach() does not mistake a full disk for damage", async ({ skip }) => {
  const disk = smallDisk(64 * 1_024);
  if (typeof disk === "string") return skip(disk);
  using _disk = disk;
  writeFileSync(`${disk.path}/filler`, Buffer.alloc(60 * 1_024));
  await using engine = await testEngine(disk.path);
  await expect(engine.attach("t", `${disk.path}/t.duckdb`, migrations)).rejects.toMatchObject({
    code: "unavailable",
    message: expect.stringContaining("no space left"),
  });
  expect(readdirSync(disk.path).filter((name) => name.includes("damaged"))).toEqual([]);
});

test("openEngine() succeeds when retried after a failure", async () => {
  using folder = temporaryFolder();
  const options = { dataDirectories: [folder.path], memoryLimitBytes: 64 * 1024 ** 2, threads: 0, log: silentLogger };
  await expect(openEngine(options)).rejects.toThrow("Cannot open store");
  await (await testEngine(folder.path)).close();
});

test("openEngine() spills large sorts to disk, and removes what a killed process spilled", async () => {
  using folder = temporaryFolder();
  const tempDirectory = `${folder.path}/spill`;
  mkdirSync(tempDirectory);
  for (const name of ["duckdb_temp_storage_DEFAULT-0.tmp", "other"]) writeFileSync(`${tempDirectory}/${name}`, "");
  const options = { dataDirectories: [folder.path], memoryLimitBytes: 64 * 1024 ** 2, threads: 1, log: silentLogger, tempDirectory };
  await using engine = await openEngine(options);
  expect(readdirSync(tempDirectory)).toEqual(["other"]);
  const database = await engine.attach("t", `${folder.path}/t.duckdb`, migrations);
  const columns = Array.from({ length: 20 }, (_, index) => `hash(range + ${index}) AS c${index}`).join(", ");
  const sorted = `SELECT * FROM (SELECT ${columns} FROM range(400000)) ORDER BY c0 OFFSET 399999`;
  expect(await database.query(sorted)).toHaveLength(1);
});
