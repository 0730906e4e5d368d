/**
 * How far a colony has pulled an agent's segments, beside them: the agent's database may be lost, and then its segments must neither be lost nor
 * sent twice.
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

/** Survives the end of the process; after a power loss it may be a few seconds old. */
export function writePulledMark(segmentsRoot: string, mark: PulledMark): void {
  const file = markFile(segmentsRoot);
  writeFileSync(`${file}.new`, JSON.stringify(mark), { mode: 0o600 });
  renameSync(`${file}.new`, file);
  giveToFolderOwner(file);
}

/** Undefined when there is none, or an unreadable one. */
export function readPulledMark(segmentsRoot: string): PulledMark | undefined {
  try {
    const { epoch, pulled } = JSON.parse(readFileSync(markFile(segmentsRoot), "utf8")) as Partial<PulledMark>;
    return typeof epoch === "string" && typeof pulled === "object" ? { epoch, pulled } : undefined;
  } catch {
    // The first start, or a file cut short by a power loss: all segments are offered again.
    return undefined;
  }
}
