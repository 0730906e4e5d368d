/**
 * Recovers segments whose manifest was lost with the colony's database. Rebuilds the manifest rows from the files, so that the next pull
 * resumes after them.
 */

import { createHash } from "node:crypto";
import { createReadStream, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Database } from "../engine/database.ts";
import type { SegmentSignal } from "../signals/define-segment-signal.ts";
import { checkSegment } from "./check-segment.ts";
import { lookupFilterOfFile } from "./merge-segments.ts";
import { schemaOf } from "./parquet/encode-parquet.ts";
import { quoted } from "./segment-catalog.ts";
import { damageOf, moveAside, segmentPath } from "./segment-files.ts";
import { insertEntries, type SegmentEntry, type StoredHead, saveHead } from "./segment-manifest.ts";
import { maxListedServices } from "./write-segment-file.ts";

export interface AdoptionHost {
  database: Database;
  /** The directory `segments`. */
  root: string;
  log: Logger;
  nowUs: number;
}

export type FoundFile = Pick<SegmentEntry, "agentId" | "epoch" | "signal" | "firstNumber" | "number">;

export interface Adopted {
  entries: SegmentEntry[];
  heads: StoredHead[];
}

/** Adopts the files of every agent and epoch without a head. Unreadable files are moved aside. */
export async function adoptSegments(
  host: AdoptionHost,
  signals: readonly SegmentSignal[],
  isKnown: (epoch: string, signal: string) => boolean,
): Promise<Adopted> {
  const adopted: Adopted = { entries: [], heads: [] };
  for (const signal of signals) {
    for (const files of unknownFiles(host.root, signal.name, isKnown)) {
      const { entries, head } = await adoptEpoch(host, signal, files);
      adopted.entries.push(...entries);
      if (head) adopted.heads.push(head);
    }
  }
  const rows = adopted.entries.reduce((sum, entry) => sum + entry.rows, 0);
  if (rows > 0) host.log.warn("segment files without a manifest found; adopting them", { files: adopted.entries.length, rows });
  return adopted;
}

async function adoptEpoch(
  host: AdoptionHost,
  signal: SegmentSignal,
  files: readonly FoundFile[],
): Promise<{ entries: SegmentEntry[]; head: StoredHead | undefined }> {
  const taken: { entry: SegmentEntry; filter: Uint8Array | undefined }[] = [];
  let rowsBefore = 0;
  for (const found of files) {
    const read = await readFoundFile(host, signal, found, rowsBefore);
    if (read === undefined) continue;
    taken.push(read);
    rowsBefore += read.entry.rows;
  }
  const last = taken.at(-1)?.entry;
  if (last === undefined) return { entries: [], head: undefined };
  const { agentId, epoch, number } = last;
  // The agent's total row count is unknown. `known` below `rows` marks that until the next pull.
  const head: StoredHead = { agentId, epoch, signal: signal.name, number, rows: rowsBefore, known: 0 };
  await host.database.write(async (transaction) => {
    await insertEntries(transaction, taken);
    await saveHead(transaction, head, host.nowUs);
  });
  return { entries: taken.map(({ entry }) => entry), head };
}

/** Grouped by agent and epoch. */
function unknownFiles(root: string, signal: string, isKnown: (epoch: string, signal: string) => boolean): FoundFile[][] {
  const groups: FoundFile[][] = [];
  for (const folder of readdirSync(join(root, signal), { withFileTypes: true })) {
    const [, agentId, epoch] = /^([A-Za-z0-9][A-Za-z0-9._-]{0,127})~([0-9A-Za-z-]{1,64})$/.exec(folder.name) ?? [];
    if (!folder.isDirectory() || agentId === undefined || epoch === undefined || isKnown(epoch, signal)) continue;
    const files = filesOf(join(root, signal, folder.name), { agentId, epoch, signal });
    if (files.length > 0) groups.push(files);
  }
  return groups;
}

/** Segments in one directory, in order of number. If both a merged segment and its parts are present, only the merged one. */
export function filesOf(folder: string, source: Pick<FoundFile, "agentId" | "epoch" | "signal">): FoundFile[] {
  const files = readdirSync(folder).flatMap((name): FoundFile[] => {
    const [, first, last] = /^(\d{9,15})(?:-(\d{9,15}))?\.parquet$/.exec(name) ?? [];
    return first === undefined ? [] : [{ ...source, firstNumber: Number(first), number: Number(last ?? first) }];
  });
  files.sort((a, b) => a.firstNumber - b.firstNumber || b.number - a.number);
  const apart: FoundFile[] = [];
  for (const file of files) if (file.firstNumber > (apart.at(-1)?.number ?? 0)) apart.push(file);
  return apart;
}

/** Rebuilds a manifest entry from its file; undefined for an unreadable file, which is moved aside. */
export async function readFoundFile(
  { database, root, log, nowUs }: AdoptionHost,
  signal: SegmentSignal,
  found: FoundFile,
  rowsBefore: number,
): Promise<{ entry: SegmentEntry; filter: Uint8Array | undefined } | undefined> {
  const file = segmentPath(root, found);
  try {
    const sizeBytes = statSync(file).size;
    const damage = damageOf(file, sizeBytes);
    if (damage !== undefined) throw new CoralError({ code: "corrupt", message: damage });
    const columns = await database.query(`SELECT column_name FROM (DESCRIBE SELECT * FROM read_parquet(${quoted(file)}))`);
    const names = new Set(columns.map((row) => row["column_name"]));
    // A file written with an older schema lacks columns. Which older version makes no difference.
    const schemaVersion = schemaOf(signal).every(({ name }) => names.has(name)) ? signal.version : 0;
    const [facts = {}] = await database.query(
      `SELECT count(*) AS rows, epoch_us(min("time")) AS first, epoch_us(max("time")) AS last, list(DISTINCT service) AS services FROM read_parquet(${quoted(file)})`,
    );
    const rows = Number(facts["rows"]);
    await checkSegment(database, signal, file, rows, schemaVersion);
    const services = (Array.isArray(facts["services"]) ? facts["services"] : []).map(String).sort();
    const entry: SegmentEntry = {
      ...found,
      rowsBefore,
      rows,
      sizeBytes,
      minTimeUs: Number(facts["first"]),
      maxTimeUs: Number(facts["last"]),
      services: services.length > maxListedServices ? null : services,
      schemaVersion,
      sha256: await hashOf(file),
      storedAtUs: nowUs,
      state: "stored",
    };
    return { entry, filter: await lookupFilterOfFile(database, signal, file) };
  } catch (error) {
    const { code, message } = CoralError.from(error);
    if (code === "unavailable") throw error;
    moveAside(file, log, message);
    return undefined;
  }
}

async function hashOf(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) hash.update(chunk);
  return hash.digest("hex");
}
