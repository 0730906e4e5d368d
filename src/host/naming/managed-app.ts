/** What PM2 calls a program. It passes the name on in the environment, and with it everything else: only what is named here is taken. */

import { basename } from "node:path";
import { isGenericName } from "./path-name.ts";

export interface ManagedApp {
  name: string;
  /** What PM2 was told to run. */
  path: string;
}

/** The variable under which `nameOfEnvironment` finds it. */
export const managedNameVariable = "PM2_APP_NAME";

/** PM2 hands a plain environment to what it starts by itself, and one text of JSON to workers of its cluster. Null for what PM2 does not run. */
export function managedAppOf(variable: (name: string) => string | undefined): ManagedApp | null {
  const json = variable("pm2_env");
  const [name, path] =
    json === undefined
      ? [variable("pm_id") === undefined ? undefined : variable("name"), variable("pm_exec_path")]
      : [textIn(json, "name"), textIn(json, "pm_exec_path")];
  return name && path ? { name, path } : null;
}

/** Of JSON that may be cut at its end. */
function textIn(json: string, key: string): string | undefined {
  return new RegExp(`[{,]"${key}":"([^"\\\\]{1,512})"`).exec(json)?.[1];
}

/**
 * Null when the name says nothing, as `server` of `pm2 start server.js`, or when another program runs: whatever an app starts inherits its
 * environment.
 */
export function managedNameOf({ name, path }: ManagedApp, args: readonly string[]): string | null {
  const isDefault = name === basename(path).replace(/\.\w+$/, "") && isGenericName(name);
  return isDefault || !args.slice(0, 8).some((arg) => arg.includes(path)) ? null : name;
}
