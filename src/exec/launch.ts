/**
 * The words that start a program: into its control groups, into the namespaces of its target, down to its user, without a way back up. Every step is a fixed
 * program with arguments of ours; the command's own words come last and are read by nobody on the way.
 */

import { existsSync } from "node:fs";
import { CoralError } from "../base/errors.ts";
import { mayGiveCapability, type ProcessView } from "../host/index.ts";
import type { Redirections } from "./parse-command.ts";

export interface LaunchUser {
  uid: number;
  gid: number;
}

export interface LaunchOptions {
  /** Absolute, in the target. */
  file: string;
  /** Without the program's name. */
  args: readonly string[];
  redirections: Redirections;
  joinFiles: readonly string[];
  /** Undefined: as the agent itself. */
  user: LaunchUser | undefined;
  groups: readonly number[];
  capabilities: readonly string[];
  /** Whose namespaces are entered; undefined: none. */
  target: ProcessView | undefined;
  /** Absolute, in the target; empty: its root. */
  workingDirectory: string;
}

/** `$1` says where output goes, then come the groups to join until `--`, then what to become. */
const script = `
mode=$1; shift
while [ "$1" != -- ]; do echo 0 >"$1" || exit 125; shift; done
shift
ulimit -c 0
umask 022
case $mode in
  n) exec "$@" ;;
  o) exec "$@" >/dev/null ;;
  e) exec "$@" 2>/dev/null ;;
  m) exec "$@" 2>&1 ;;
  oe) exec "$@" >/dev/null 2>&1 ;;
  om) exec "$@" 2>&1 >/dev/null ;;
esac
exit 125
`;
/** After the change of user, so that nobody gets into a directory that is closed to them. */
const changeDirectory = 'cd -- "$1" || exit 125; shift; exec "$@"';

/** A file to run and its arguments. Throws `unsupported` when the tools for it are missing here. */
export function launchWords(options: LaunchOptions): [string, ...string[]] {
  const shell = tool(["/bin/sh", "/usr/bin/sh"], "run commands", "a shell at /bin/sh");
  return [shell, "-c", script, "coral-launch", modeOf(options.redirections), ...options.joinFiles, "--", ...chainOf(options, shell)];
}

function chainOf(options: LaunchOptions, shell: string): string[] {
  const { target, workingDirectory, file, args } = options;
  const program = [file, ...args];
  if (target) return [...confine(options, true), ...enter(target, options), ...program];
  const moved = workingDirectory === "" ? program : [shell, "-c", changeDirectory, "coral-cd", workingDirectory, ...program];
  return [...confine(options, false), ...moved];
}

function modeOf({ dropStdout, dropStderr, stderrToStdout }: Redirections): string {
  return `${dropStdout ? "o" : ""}${stderrToStdout ? "m" : dropStderr ? "e" : ""}` || "n";
}

/** Gives up rights for good. Before namespaces are entered the user stays: entering needs root. */
function confine({ user, groups, capabilities }: LaunchOptions, isEntering: boolean): string[] {
  if (user === undefined) return [];
  const setpriv = tool(["/usr/bin/setpriv", "/bin/setpriv"], `run commands as user ${user.uid}`, "setpriv of util-linux");
  if (isEntering) return [setpriv, "--no-new-privs", "--pdeathsig", "KILL", "--"];
  if (user.uid === 0) return [setpriv, "--pdeathsig", "KILL", "--"];
  const caps = ["-all", ...capabilities.map((name) => `+${name}`)].join(",");
  return [
    setpriv,
    `--reuid=${user.uid}`,
    `--regid=${user.gid}`,
    ...(groups.length === 0 ? ["--clear-groups"] : [`--groups=${groups.join(",")}`]),
    `--inh-caps=${caps}`,
    `--ambient-caps=${caps}`,
    `--bounding-set=${caps}`,
    "--no-new-privs",
    "--pdeathsig",
    "KILL",
    "--",
  ];
}

const namespaceFlags: Readonly<Record<string, string>> = {
  mnt: "--mount",
  pid: "--pid",
  net: "--net",
  uts: "--uts",
  ipc: "--ipc",
  cgroup: "--cgroup",
};

function enter(target: ProcessView, { user, workingDirectory }: LaunchOptions): string[] {
  const nsenter = tool(["/usr/bin/nsenter", "/bin/nsenter"], "enter the namespaces of a process", "nsenter of util-linux");
  if (user === undefined || !mayEnterNamespaces()) {
    throw new CoralError({
      code: "unsupported",
      message: `Cannot enter the namespaces of process ${target.pid}: the agent has not the right to; run it as root with CAP_SYS_ADMIN and CAP_SYS_CHROOT, or name the container so that its runtime can`,
    });
  }
  if (user.uid === 0) {
    // With the agent's capabilities it would have more rights than anything in the container.
    throw new CoralError({
      code: "unsupported",
      message: "Cannot run as root inside the namespaces of another process: only a container runtime can do that safely",
    });
  }
  if (target.namespaces.includes("user")) {
    throw new CoralError({
      code: "unsupported",
      message: "Cannot enter a process in a user namespace of its own: only its container runtime can run programs there",
    });
  }
  return [
    nsenter,
    `--target=${target.pid}`,
    ...target.namespaces.flatMap((kind) => namespaceFlags[kind] ?? []),
    ...(target.rootPrefix === "" ? [] : ["--root"]),
    // Looked up inside: a link there could lead out otherwise.
    ...(workingDirectory === "" ? [] : [`--wdns=${workingDirectory}`]),
    `--setgid=${user.gid}`,
    `--setuid=${user.uid}`,
    "--",
  ];
}

/** Whether this agent can enter other processes' namespaces at all. */
export function mayEnterNamespaces(): boolean {
  return process.getuid?.() === 0 && mayGiveCapability("sys_admin") && mayGiveCapability("sys_chroot");
}

function tool(paths: readonly string[], what: string, name: string): string {
  const path = paths.find((candidate) => existsSync(candidate));
  if (path === undefined) throw new CoralError({ code: "unsupported", message: `Cannot ${what}: ${name} is missing on this host` });
  return path;
}
