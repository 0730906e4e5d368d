/**
 * Recovers segments and write-ahead files of an agent whose database was lost. Segments that a colony already pulled stay queryable under
 * their former epoch. The rest joins the new epoch, from which colonies pull it.
 */

import { existsSync, mkdirSync, readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import type { SegmentSignal } from "../../signals/define-segment-signal.ts";
import { type AdoptionHost, filesOf, readFoundFile } from "../adopt-segments.ts";
import { writeAheadNumber, writeAheadPath } from "../segment-files.ts";
import { type AddedEntry, insertEntries, type StoredHead, saveHead } from "../segment-manifest.ts";
import { readPulledMark } from "./pulled-mark.ts";

export interface OwnAdoptionHost extends AdoptionHost {
  writeAheadRoot: string;
  /** The new epoch. */
  epoch: string;
}

/** Fills the manifest of an empty database. Returns the number of adopted rows. */
export async function adoptOwnSegments(host: OwnAdoptionHost, signals: readonly SegmentSignal[]): Promise<number> {
  const mark = readPulledMark(host.root);
  let rows = 0;
  for (const signal of signals) rows += await adoptSignal(host, signal, mark?.epoch ?? "former", mark?.pulled[signal.name] ?? 0);
  if (rows > 0) host.log.warn("segment files without a manifest found; adopting them", { rows });
  return rows;
}

async function adoptSignal(host: OwnAdoptionHost, signal: SegmentSignal, formerEpoch: string, pulled: number): Promise<number> {
  const folder = join(host.root, signal.name);
  if (!existsSync(folder)) return 0;
  const found = filesOf(folder, { agentId: "", epoch: host.epoch, signal: signal.name });
  const waiting = waitingNumbers(host.writeAheadRoot, signal.name);
  // A segment whose write-ahead file is gone was in the lost manifest. Later ones are sealed again from their write-ahead files.
  const last = found.filter(({ number }) => !waiting.includes(number)).at(-1)?.number ?? 0;
  const adopted: AddedEntry[] = [];
  let rowsBefore = 0;
  for (const file of found.filter(({ number }) => number <= last)) {
    const isPulled = file.number <= pulled;
    const read = await readFoundFile(host, signal, file, isPulled ? 0 : rowsBefore);
    if (read === undefined) continue;
    // Set after reading the file: its path does not depend on the epoch.
    adopted.push(isPulled ? { ...read, entry: { ...read.entry, epoch: formerEpoch } } : read);
    if (!isPulled) rowsBefore += read.entry.rows;
  }
  keepUnsealed(host, signal.name, waiting, last, (number) => found.some((file) => file.firstNumber <= number && number <= file.number));
  // Saved even without a segment: numbers that a colony has seen must not be reused.
  const number = Math.max(last, pulled);
  if (number === 0) return 0;
  const head: StoredHead = {
    agentId: "",
    epoch: host.epoch,
    signal: signal.name,
    number,
    rows: rowsBefore,
    known: Math.min(pulled, number),
  };
  await host.database.write(async (transaction) => {
    await insertEntries(transaction, adopted);
    await saveHead(transaction, head, host.nowUs);
  });
  return adopted.reduce((total, { entry }) => total + entry.rows, 0);
}

function waitingNumbers(root: string, signal: string): number[] {
  mkdirSync(join(root, signal), { recursive: true, mode: 0o700 });
  return readdirSync(join(root, signal))
    .map(writeAheadNumber)
    .filter((number) => number !== undefined)
    .sort((a, b) => a - b);
}

/**
 * A write-ahead file numbered at or below the last segment would count as stored. One without a segment gets a new number after all others.
 */
function keepUnsealed(
  host: OwnAdoptionHost,
  signal: string,
  waiting: readonly number[],
  last: number,
  isStored: (number: number) => boolean,
): void {
  let next = Math.max(last, ...waiting) + 1;
  for (const number of waiting) {
    if (number > last || isStored(number)) continue;
    renameSync(writeAheadPath(host.writeAheadRoot, signal, number), writeAheadPath(host.writeAheadRoot, signal, next++));
  }
}
