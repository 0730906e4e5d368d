import { closeSync, copyFileSync, existsSync, openSync, statSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { seededBytes, seededRandom } from "./seeded-random.ts";

/** Damage to database files by disks, crashes and users, by description. Each function takes the path of a closed file. */
export const damages: Readonly<Record<string, (file: string) => void>> = {
  "its header overwritten": (file) => overwrite(file, 0, 8_192),
  truncated: (file) => truncateSync(file, Math.floor(statSync(file).size / 2)),
  "nothing left": (file) => truncateSync(file, 0),
  // Everything but the headers, so that metadata is damaged too: damaged rows alone show only when they are read.
  "random bytes in its middle": (file) => overwrite(file, 16_384, statSync(file).size - 20_480),
  "a garbage log": (file) => writeFileSync(`${file}.wal`, seededBytes(seededRandom(7), 20_000)),
  "another kind of file in its place": (file) => writeFileSync(file, "This is a plain text file.\n".repeat(1_000)),
};

function overwrite(file: string, offset: number, count: number): void {
  const descriptor = openSync(file, "r+");
  try {
    writeSync(descriptor, seededBytes(seededRandom(5), count), 0, count, offset);
  } finally {
    closeSync(descriptor);
  }
}

/** Keeps a closed database and its log, to damage it several times. */
export function saveDatabase(file: string): { restore: () => void } {
  copyFileSync(file, `${file}.saved`);
  const hasLog = existsSync(`${file}.wal`);
  if (hasLog) copyFileSync(`${file}.wal`, `${file}.wal.saved`);
  return {
    restore: () => {
      copyFileSync(`${file}.saved`, file);
      if (hasLog) copyFileSync(`${file}.wal.saved`, `${file}.wal`);
    },
  };
}
