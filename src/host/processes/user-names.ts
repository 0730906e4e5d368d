import { printable } from "../../base/escape-text.ts";
import type { HostRoot } from "../files/host-root.ts";

/** Names of users, from the passwd file of the host or of a container. Users of a directory service have none. */
export interface UserNames {
  /** `rootOf` is the root of the process's file system, "" for the host's; `key` is its cache key. */
  of(userId: number, place?: { key: string; rootOf: string }): string | null;
  /** Checks whether the host's file has changed; call it before each scan. */
  refresh(): void;
}

const maxFileBytes = 1024 * 1024;
const maxUsers = 10_000;
/** Cached containers; the cache is cleared when full. */
const maxContainers = 1024;

/** `name:x:uid:gid:…` lines. */
export function parsePasswd(text: string): Map<number, string> {
  const users = new Map<number, string>();
  for (const line of text.split("\n", maxUsers)) {
    const [name, , id] = line.split(":", 3);
    const userId = Number(id || Number.NaN);
    if (name && Number.isSafeInteger(userId) && userId >= 0 && !users.has(userId)) users.set(userId, printable(name, 64));
  }
  return users;
}

export function createUserNames(root: HostRoot): UserNames {
  const containers = new Map<string, Map<number, string>>();
  let hostChangedMs = 0;
  return {
    of: (userId, place = { key: "", rootOf: "" }) => {
      let users = containers.get(place.key);
      if (!users) {
        if (containers.size >= maxContainers) containers.clear();
        users = parsePasswd(root.readText(`${place.rootOf}/etc/passwd`, undefined, maxFileBytes) ?? "");
        containers.set(place.key, users);
      }
      return users.get(userId) ?? null;
    },
    refresh: () => {
      const changedMs = root.stat("/etc/passwd")?.modifiedMs ?? 0;
      if (changedMs !== hostChangedMs) containers.delete("");
      hostChangedMs = changedMs;
    },
  };
}
