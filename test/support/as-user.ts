/** Running commands as another user, for tests that run as root. */

import { accessSync, chownSync, constants } from "node:fs";
import { coralFile } from "./run-coral.ts";
import { type ProgramRun, runProgram } from "./run-program.ts";
import { cleanEnvironment, makeTestHome, type TestHome } from "./test-home.ts";

/** The conventional ids of nobody and nogroup. */
export const nobody = { uid: 65_534, gid: 65_534 };

export const isRoot = process.geteuid?.() === 0;

/** The argv prefix that runs a program as that user, without groups and without capabilities. */
export function asUserArgv(user: { uid: number; gid: number }): string[] {
  return ["setpriv", "--reuid", String(user.uid), "--regid", String(user.gid), "--clear-groups", "--no-new-privs"];
}

/** Runs `coral …` as that user; HOME is the given home's parent, CORAL_HOME the home itself. */
export function runCoralAs(user: { uid: number; gid: number }, args: readonly string[], home: string): Promise<ProgramRun> {
  const [setpriv = "", ...prefix] = asUserArgv(user);
  return runProgram(setpriv, [...prefix, process.execPath, coralFile, ...args], { env: cleanEnvironment(home, { HOME: home }) });
}

/** A home that belongs to that user. */
export function makeHomeOf(user: { uid: number; gid: number }): TestHome {
  const home = makeTestHome();
  chownSync(home.path, user.uid, user.gid);
  return home;
}

/** Why tests with other users cannot run here; undefined when they can. */
export async function otherUserSkipReason(): Promise<string | undefined> {
  if (!isRoot) return "needs root to switch to another user";
  try {
    accessSync("/usr/bin/setpriv", constants.X_OK);
  } catch {
    // Not Debian or Ubuntu.
    return "needs setpriv(1)";
  }
  const { code } = await runCoralAs(nobody, ["version"], "/tmp");
  return code === 0 ? undefined : "the checkout is not readable by other users";
}
