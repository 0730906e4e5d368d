import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** Text of a file, the target of a symbolic link, or an empty directory. */
export type TreeEntry = string | { link: string } | { directory: true };

export interface HostTree extends Disposable {
  root: string;
  write(entries: Record<string, TreeEntry>): void;
}

/** A directory that simulates a host. */
export function createHostTree(entries: Record<string, TreeEntry> = {}): HostTree {
  const root = mkdtempSync(join(tmpdir(), "coral-host-"));
  const write = (more: Record<string, TreeEntry>): void => {
    for (const [path, entry] of Object.entries(more)) {
      const target = join(root, path);
      mkdirSync(typeof entry === "object" && "directory" in entry ? target : dirname(target), { recursive: true });
      if (typeof entry === "string") writeFileSync(target, entry);
      else if ("link" in entry) symlinkSync(entry.link, target);
    }
  };
  write(entries);
  return { root, write, [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }) };
}

/** True when all numbers inside are finite and not negative. */
export function hasSaneNumbers(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value) && value >= 0;
  if (value instanceof Map) return [...value.entries()].every(hasSaneNumbers);
  if (typeof value === "object" && value !== null) return Object.values(value).every(hasSaneNumbers);
  return true;
}

/** Whether a tool to compare with is installed. */
export function hasCommand(name: string): boolean {
  return spawnSync(name, ["--version"], { stdio: "ignore" }).error === undefined;
}
