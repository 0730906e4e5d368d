/**
 * Pull progress of a colony, stored beside the segments. If the agent's database is lost, its segments must neither be lost nor sent twice.
 */

import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { giveToFolderOwner } from "../segment-files.ts";

export interface PulledMark {
  epoch: string;
  /** By signal: the number of the last segment that a colony has. */
  pulled: Record<string, number>;
}

const markFile = (segmentsRoot: string): string => join(segmentsRoot, "pulled.json");

/** Survives a crash of the process. After a power loss it may be a few seconds old. */
export function writePulledMark(segmentsRoot: string, mark: PulledMark): void {
  const file = markFile(segmentsRoot);
  writeFileSync(`${file}.new`, JSON.stringify(mark), { mode: 0o600 });
  renameSync(`${file}.new`, file);
  giveToFolderOwner(file);
}

/** Undefined if the file is absent or unreadable. */
export function readPulledMark(segmentsRoot: string): PulledMark | undefined {
  try {
    const { epoch, pulled } = JSON.parse(readFileSync(markFile(segmentsRoot), "utf8")) as Partial<PulledMark>;
    return typeof epoch === "string" && typeof pulled === "object" ? { epoch, pulled } : undefined;
  } catch {
    // First start, or a file truncated by a power loss: all segments are offered again.
    return undefined;
  }
}
