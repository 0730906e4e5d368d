/** Where Coral keeps its files. Paths only; `ownership.ts` creates the directories. */

import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { CoralError } from "../../base/errors.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Files directly under CORAL_HOME. */
export interface HomePaths {
  home: string;
  /** Contexts of the CLI. */
  configFile: string;
  coloniesDirectory: string;
  /** User tokens of contexts, one file each. */
  tokensDirectory: string;
}

/** Files of one colony under CORAL_HOME. */
export interface ColonyPaths {
  directory: string;
  configFile: string;
  caDirectory: string;
  dataDirectory: string;
  databaseFile: string;
  socketFile: string;
  pidFile: string;
  logsDirectory: string;
  logFile: string;
}

/** Files of the agent under CORAL_HOME; one agent per home. */
export interface AgentPaths {
  directory: string;
  configFile: string;
  /** Holds the stable agent id, one line. */
  idFile: string;
  identityDirectory: string;
  keyFile: string;
  certificateFile: string;
  caFile: string;
  dataDirectory: string;
  databaseFile: string;
  socketFile: string;
  pidFile: string;
  logsDirectory: string;
  logFile: string;
}

/**
 * CORAL_HOME, else `~/.coral`. Under sudo that is the home of the user who typed sudo, so that both see the same files.
 * `effectiveUid` is injectable for tests.
 */
export function resolveHome(env: Environment = process.env, effectiveUid: number | undefined = process.geteuid?.()): string {
  const configured = env["CORAL_HOME"];
  if (configured !== undefined && configured !== "") return resolve(configured);
  const sudoUser = env["SUDO_USER"];
  if (effectiveUid === 0 && sudoUser !== undefined && sudoUser !== "" && sudoUser !== "root") return join(homeOfUser(sudoUser), ".coral");
  const own = env["HOME"] || homedir();
  return join(resolve(own), ".coral");
}

export function homePaths(home: string): HomePaths {
  return { home, configFile: join(home, "config.yaml"), coloniesDirectory: join(home, "colonies"), tokensDirectory: join(home, "tokens") };
}

export function colonyPaths(home: string, colonyId: string): ColonyPaths {
  if (!isColonyId(colonyId)) {
    throw new CoralError({
      code: "usage",
      message: `Cannot use colony id ${JSON.stringify(colonyId)}: it holds lower-case letters, digits and dashes only, such as "shop-dev-1a2b3c"`,
    });
  }
  const directory = join(homePaths(home).coloniesDirectory, colonyId);
  const inside = (...names: string[]): string => join(directory, ...names);
  return {
    directory,
    configFile: inside("colony.yaml"),
    caDirectory: inside("ca"),
    dataDirectory: inside("data"),
    databaseFile: inside("data", "colony.duckdb"),
    socketFile: inside("colony.sock"),
    pidFile: inside("colony.pid"),
    logsDirectory: inside("logs"),
    logFile: inside("logs", "colony.log"),
  };
}

export function agentPaths(home: string): AgentPaths {
  const directory = join(home, "agent");
  const inside = (...names: string[]): string => join(directory, ...names);
  return {
    directory,
    configFile: inside("agent.yaml"),
    idFile: inside("agent-id"),
    identityDirectory: inside("identity"),
    keyFile: inside("identity", "key.pem"),
    certificateFile: inside("identity", "cert.pem"),
    caFile: inside("identity", "ca.pem"),
    dataDirectory: inside("data"),
    databaseFile: inside("data", "agent.duckdb"),
    socketFile: inside("agent.sock"),
    pidFile: inside("agent.pid"),
    logsDirectory: inside("logs"),
    logFile: inside("logs", "agent.log"),
  };
}

/** Colony ids become directory names and certificate ids, so their alphabet is restricted. */
export function isColonyId(text: string): boolean {
  return /^[a-z0-9](?:[a-z0-9-]{0,78}[a-z0-9])?$/.test(text);
}

/** sun_path holds 108 bytes including the terminating NUL; some kernels truncate longer paths, others reject them. */
const maxSocketPathBytes = 107;

/** Returns the path, or throws `invalid` if it is too long for a unix socket. Call before listening. */
export function checkSocketPath(path: string): string {
  const sizeBytes = Buffer.byteLength(path);
  if (sizeBytes > maxSocketPathBytes) {
    throw new CoralError({
      code: "invalid",
      message: `Cannot use socket "${path}": its path has ${sizeBytes} bytes and a unix socket allows ${maxSocketPathBytes}; set CORAL_HOME to a shorter directory`,
      details: { path, sizeBytes, maxBytes: maxSocketPathBytes },
    });
  }
  return path;
}

function homeOfUser(user: string): string {
  const line = passwdLine(user);
  const directory = line?.split(":")[5];
  if (directory === undefined || !directory.startsWith("/")) {
    throw new CoralError({
      code: "not-found",
      message: `Cannot find the home directory of "${user}", who called sudo: the user database does not list it; set CORAL_HOME`,
      details: { user },
    });
  }
  return directory;
}

function passwdLine(user: string): string | undefined {
  const find = (text: string): string | undefined => text.split("\n").find((line) => line.startsWith(`${user}:`));
  try {
    const local = find(readFileSync("/etc/passwd", "utf8"));
    if (local !== undefined) return local;
    // Users of LDAP and similar are not in the file; getent queries every source. Imported lazily: every command loads this file.
    return find(
      process
        .getBuiltinModule("node:child_process")
        .execFileSync("getent", ["passwd", "--", user], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"], timeout: 2_000 }),
    );
  } catch {
    // Neither source knows the user: the caller reports it with the variable to set.
    return undefined;
  }
}
