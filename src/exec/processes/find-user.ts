/** The user of a command. Names are resolved on this host, even for containers: a container image must not define who `nobody` is. */

import { readFileSync } from "node:fs";
import { CoralError } from "../../base/errors.ts";
import type { ProcessView } from "../../host/index.ts";
import type { LaunchUser } from "./launch-argv.ts";

/** The user whose ids and home a command gets. */
export interface CommandUser {
  name: string;
  home: string;
  /** Undefined: the agent's own user. */
  ids: LaunchUser | undefined;
}

export interface FindUserOptions {
  /** From the rule or the settings; undefined: `nobody` for a root agent, else its own user. */
  runAs: string | undefined;
  target: ProcessView | undefined;
  /** For tests. */
  ownUid?: number;
  passwordFile?: string;
}

interface Entry {
  name: string;
  uid: number;
  gid: number;
  home: string;
}

/** Throws `unsupported` if the agent may not switch to that user, and `invalid` if it does not exist. */
export function findUser(options: FindUserOptions): CommandUser {
  const { runAs, target, ownUid = process.getuid?.() ?? 0, passwordFile = "/etc/passwd" } = options;
  const users = readUsers(passwordFile);
  const own = users.find(({ uid }) => uid === ownUid) ?? {
    name: String(ownUid),
    uid: ownUid,
    gid: process.getgid?.() ?? ownUid,
    home: "/",
  };
  if (ownUid !== 0) {
    if (runAs === undefined || runAs === own.name || runAs === String(ownUid)) return { name: own.name, home: own.home, ids: undefined };
    if (runAs === "target" && target?.uid === ownUid) return { name: own.name, home: own.home, ids: undefined };
    throw new CoralError({
      code: "unsupported",
      message: `Cannot run a command as "${runAs}": the agent is not root, so it runs commands as ${own.name}`,
    });
  }
  if (runAs === "target" && target) return userOf({ name: `uid ${target.uid}`, uid: target.uid, gid: target.gid, home: "/" });
  const wanted = runAs === undefined || runAs === "target" ? "nobody" : runAs;
  const found = /^\d+$/.test(wanted)
    ? (users.find(({ uid }) => uid === Number(wanted)) ?? unnamed(Number(wanted)))
    : users.find(({ name }) => name === wanted);
  if (found) return userOf(found);
  // The number works on systems without the name.
  if (wanted === "nobody") return userOf({ name: "nobody", uid: 65_534, gid: 65_534, home: "/nonexistent" });
  throw new CoralError({
    code: "invalid",
    message: `Cannot run a command as "${wanted}": this host has no such user; change run_as in the agent's config`,
  });
}

function userOf({ name, home, uid, gid }: Entry): CommandUser {
  return { name, home, ids: { uid, gid } };
}

function unnamed(uid: number): Entry {
  return { name: String(uid), uid, gid: uid, home: "/" };
}

function readUsers(file: string): Entry[] {
  return linesOf(file).flatMap((line) => {
    const [name = "", , uid = "", gid = "", , home = ""] = line.split(":");
    return name !== "" && /^\d+$/.test(uid) && /^\d+$/.test(gid) ? [{ name, uid: Number(uid), gid: Number(gid), home: home || "/" }] : [];
  });
}

/** Ids of the groups that exist here; others are skipped. */
export function findGroups(names: readonly string[], file = "/etc/group"): number[] {
  if (names.length === 0) return [];
  const known = new Map(linesOf(file).map((line) => [line.split(":")[0] ?? "", Number(line.split(":")[2])]));
  return names.flatMap((name) => {
    const gid = known.get(name);
    return gid === undefined || Number.isNaN(gid) ? [] : [gid];
  });
}

function linesOf(file: string): string[] {
  try {
    return readFileSync(file, "utf8").split("\n");
  } catch {
    // Without the file there are no names; numeric ids still work.
    return [];
  }
}
