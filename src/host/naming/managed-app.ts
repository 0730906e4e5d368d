/** The name that PM2 gives a program. PM2 passes it in the environment together with everything else; only the variables listed here are read. */

import { basename } from "node:path";
import { isGenericName } from "./path-name.ts";

export interface ManagedApp {
  name: string;
  /** The script that PM2 runs. */
  path: string;
}

/** The variable under which `nameOfEnvironment` finds it. */
export const managedNameVariable = "PM2_APP_NAME";

/** PM2 passes plain variables to programs it starts directly, and one JSON text to cluster workers. Null for programs that PM2 does not run. */
export function managedAppOf(variable: (name: string) => string | undefined): ManagedApp | null {
  const json = variable("pm2_env");
  const [name, path] =
    json === undefined
      ? [variable("pm_id") === undefined ? undefined : variable("name"), variable("pm_exec_path")]
      : [textIn(json, "name"), textIn(json, "pm_exec_path")];
  return name && path ? { name, path } : null;
}

/** Reads JSON that may be truncated. */
function textIn(json: string, key: string): string | undefined {
  return new RegExp(`[{,]"${key}":"([^"\\\\]{1,512})"`).exec(json)?.[1];
}

/**
 * Null if the name is generic, such as `server` of `pm2 start server.js`, or if another program runs: children of an app inherit its
 * environment.
 */
export function managedNameOf({ name, path }: ManagedApp, args: readonly string[]): string | null {
  const isDefault = name === basename(path).replace(/\.\w+$/, "") && isGenericName(name);
  return isDefault || !args.slice(0, 8).some((arg) => arg.includes(path)) ? null : name;
}
