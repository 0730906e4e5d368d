import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Connection } from "./connection.ts";
import { corruptMark, type Opened } from "./database.ts";
import { failureOf, storeError } from "./duckdb-errors.ts";

export interface FileOptions {
  /** Granularity of reuse inside the file. DuckDB allows powers of two from 16 KiB to 256 KiB; fixed when the file is created. */
  blockBytes: number;
  /** Deleted rows free their space in row groups of this size; a multiple of 2,048, fixed when the file is created. */
  rowGroupRows: number;
  /** When only the log is damaged: keep the file as of its last checkpoint instead of starting empty. For stores whose lost commits will be pulled again. */
  keepCheckpoint: boolean;
  /** Why an existing file must not be used; it is moved aside like a damaged one. */
  discard?: string;
}

export interface AttachTarget extends FileOptions {
  name: string;
  file: string;
}

export function attachSql(target: AttachTarget): string {
  const file = target.file.replaceAll("'", "''");
  // An existing file keeps its block size; specifying another one is an error.
  const blocks = existsSync(target.file) ? "" : `, BLOCK_SIZE ${target.blockBytes}`;
  return `ATTACH '${file}' AS "${target.name}" (ROW_GROUP_SIZE ${target.rowGroupRows}${blocks})`;
}

/** Attaches a file, or a new empty one if the existing file is damaged. Throws for a file that is locked, unreadable or on a full disk: that is not damage. */
export async function attachFile(admin: Connection, target: AttachTarget, log: Logger): Promise<Opened> {
  const existed = existsSync(target.file);
  // The file is inspected before DuckDB opens it and never while attached: closing any descriptor of it would release DuckDB's lock (POSIX fcntl).
  let damage = existed && target.discard !== undefined ? fileDamage(target.discard) : damageBefore(target.file, existed);
  if (damage === undefined) {
    damage = await tryAttach(admin, target);
    if (damage === undefined) return { how: existed ? "existing" : "created" };
  }
  const keepCheckpoint = target.keepCheckpoint && damage.part === "log" && existed;
  const movedTo = moveAside(target.file, keepCheckpoint);
  log.error("moved a damaged store aside", { file: target.file, movedTo, reason: damage.reason, keptCheckpoint: keepCheckpoint });
  const again = await tryAttach(admin, target);
  if (again !== undefined && keepCheckpoint) {
    return await attachFile(admin, { ...target, keepCheckpoint: false }, log);
  }
  if (again !== undefined) {
    throw new CoralError({
      code: "corrupt",
      message: `Cannot open store "${target.file}": an empty new file cannot be opened either: ${again.reason}`,
    });
  }
  return { how: "recovered", movedTo, reason: damage.reason, keptCheckpoint: keepCheckpoint };
}

/** Damaged files kept beside a store for inspection. */
const maxDamagedKept = 3;

interface Damage {
  part: "file" | "log";
  reason: string;
}

function fileDamage(reason: string): Damage {
  return { part: "file", reason };
}

/** Every DuckDB 1.x log starts with a version record. A log without one would silently count as empty. */
const logOpening = Buffer.from([0x64, 0x00, 0x62, 0x65, 0x00]);

function damageBefore(file: string, existed: boolean): Damage | undefined {
  const mark = corruptMark(file);
  if (existsSync(mark)) return fileDamage(readFileSync(mark, "utf8"));
  const log = statSync(`${file}.wal`, { throwIfNoEntry: false });
  if (log === undefined || log.size < logOpening.length) return undefined;
  if (!existed) return fileDamage("its log exists but the file does not");
  const opening = Buffer.alloc(logOpening.length);
  const descriptor = openSync(`${file}.wal`, "r");
  try {
    readSync(descriptor, opening, 0, opening.length, 0);
  } finally {
    closeSync(descriptor);
  }
  return opening.equals(logOpening) ? undefined : { part: "log", reason: "its log has no DuckDB header" };
}

/** Undefined if the file was attached and is intact. */
async function tryAttach(admin: Connection, target: AttachTarget): Promise<Damage | undefined> {
  try {
    await admin.run(attachSql(target));
  } catch (error) {
    return damageOf(error, target.file);
  }
  try {
    await verify(admin, target);
    return undefined;
  } catch (error) {
    await admin.run(`DETACH "${target.name}"`);
    return damageOf(error, target.file);
  }
}

function damageOf(error: unknown, file: string): Damage {
  const text = error instanceof Error ? error.message : String(error);
  if (failureOf(error) !== "corrupt" && !/^(INTERNAL|FATAL) Error/.test(text)) throw storeError("open", file, error);
  return { part: /WAL/.test(text) ? "log" : "file", reason: text.split("\n", 1)[0] ?? text };
}

/** Finds damage that ATTACH does not check: truncation and damaged table metadata. Reads no rows. */
async function verify(admin: Connection, target: AttachTarget): Promise<void> {
  // Used blocks only: a checkpoint truncates free blocks after it has written a header that still counts them.
  const [size] = await admin.query("SELECT used_blocks * block_size AS bytes FROM pragma_database_size() WHERE database_name = ?", [
    target.name,
  ]);
  if ((statSync(target.file, { throwIfNoEntry: false })?.size ?? 0) < Number(size?.["bytes"] ?? 0)) {
    throw new CoralError({ code: "corrupt", message: "Corrupt database file: it is shorter than its data" });
  }
  const tables = await admin.query("SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ?", [target.name]);
  for (const { schema_name: schema, table_name: table } of tables) {
    await admin.query(`SELECT count(*) FROM "${target.name}"."${String(schema)}"."${String(table)}"`);
  }
}

function moveAside(file: string, onlyLog: boolean): string {
  const time = new Date().toISOString().replaceAll(/[-:]/g, "");
  const target = `${file}.damaged-${time}`;
  if (!onlyLog && existsSync(file)) renameSync(file, target);
  if (existsSync(`${file}.wal`)) renameSync(`${file}.wal`, `${target}.wal`);
  rmSync(corruptMark(file), { force: true });
  removeOldDamaged(file);
  return onlyLog ? `${target}.wal` : target;
}

/** Bounded, so that a disk that keeps damaging files does not fill up with copies. */
function removeOldDamaged(file: string): void {
  const directory = dirname(file);
  const prefix = `${basename(file)}.damaged-`;
  const kept = readdirSync(directory).filter((name) => name.startsWith(prefix));
  const times = [...new Set(kept.map((name) => name.replace(/\.wal$/, "")))].sort();
  for (const name of times.slice(0, -maxDamagedKept)) {
    for (const path of [join(directory, name), join(directory, `${name}.wal`)]) rmSync(path, { force: true });
  }
}
