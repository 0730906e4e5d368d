import { printable } from "../../base/escape-text.ts";
import type { HostRoot } from "../files/host-root.ts";

/** Names of users, from the passwd file of the host or of a container. Users of a directory service have none. */
export interface UserNames {
  /** `rootOf` is where the file system of the process begins: "" for the host's. `key` is what to remember it under. */
  of(userId: number, place?: { key: string; rootOf: string }): string | null;
  /** Looks whether the host's file has changed; call it before each scan. */
  refresh(): void;
}

const maxFileBytes = 1024 * 1024;
const maxUsers = 10_000;
/** Cached containers; the cache is cleared when full. */
const maxPlaces = 1024;

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
  const places = new Map<string, Map<number, string>>();
  let hostChangedMs = 0;
  return {
    of: (userId, place = { key: "", rootOf: "" }) => {
      let users = places.get(place.key);
      if (!users) {
        if (places.size >= maxPlaces) places.clear();
        users = parsePasswd(root.readText(`${place.rootOf}/etc/passwd`, undefined, maxFileBytes) ?? "");
        places.set(place.key, users);
      }
      return users.get(userId) ?? null;
    },
    refresh: () => {
      const changedMs = root.stat("/etc/passwd")?.modifiedMs ?? 0;
      if (changedMs !== hostChangedMs) places.delete("");
      hostChangedMs = changedMs;
    },
  };
}
