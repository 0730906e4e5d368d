/** A segment without rows. Queries read it for a signal without segments; it also supplies the columns that older segments lack. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { SegmentSignal } from "../signals/define-segment-signal.ts";
import { encodeParquet } from "./parquet/encode-parquet.ts";
import { giveToFolderOwner } from "./segment-files.ts";

export function emptySegmentPath(root: string, signal: SegmentSignal): string {
  return join(root, signal.name, `empty-${signal.version}.parquet`);
}

export function writeEmptySegment(file: string, signal: SegmentSignal): void {
  writeFileSync(file, Buffer.concat(encodeParquet(signal, { rows: 0, columns: {} }).parts), { mode: 0o600 });
  giveToFolderOwner(file);
}
