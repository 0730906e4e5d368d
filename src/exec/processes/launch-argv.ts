/**
 * Builds the argv that starts a program: joins its control groups, enters the target's namespaces, and permanently drops to its user. Every step is a
 * fixed program with fixed arguments; the command's own argv comes last and is not parsed by any step.
 */

import { existsSync } from "node:fs";
import { CoralError } from "../../base/errors.ts";
import { mayGiveCapability, type ProcessView } from "../../host/index.ts";
import type { Redirections } from "../policy/parse-command.ts";
import { commandVariable } from "./command-environment.ts";

/** Numeric ids in the host's user namespace. */
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
  /** For the read-only profile: the program cannot write files, and its memory is limited, even without control groups. Undefined: not limited here. */
  readOnly: { memoryBytes: number } | undefined;
  /** Undefined: the agent's own user. */
  user: LaunchUser | undefined;
  groups: readonly number[];
  capabilities: readonly string[];
  /** The process whose namespaces are entered; undefined: none. */
  target: ProcessView | undefined;
  /** Absolute, in the target; empty: its root. */
  workingDirectory: string;
}

/** Executes `$@`, with output redirected by `$coral_mode`. The variable names are unlikely to clash, as they may reach the program's environment. */
const become = `
case $coral_mode in
  n) exec "$@" 3<&- ;;
  o) exec "$@" 3<&- >/dev/null ;;
  e) exec "$@" 3<&- 2>/dev/null ;;
  m) exec "$@" 3<&- 2>&1 ;;
  oe) exec "$@" 3<&- >/dev/null 2>&1 ;;
  om) exec "$@" 3<&- 2>&1 >/dev/null ;;
esac
exit 125
`;
/**
 * `$1` is the output mode, `$2` the memory limit of a read-only program in KiB (empty: not read-only), followed by the groups to join, `--`, and the argv to execute.
 * Every file that a read-only program writes is limited to zero bytes, temporary files included; pipes and devices are not affected. Its memory is limited here
 * as well, because there may be no control group.
 */
const script = `
coral_mode=$1; coral_memory=$2; shift 2
while [ "$1" != -- ]; do echo 0 >"$1" || exit 125; shift; done
shift
ulimit -c 0
[ -z "$coral_memory" ] || { ulimit -f 0 && ulimit -d "$coral_memory"; } || exit 125
umask 022
${become.replaceAll(" 3<&-", "")}`;
/** After the user switch, so that this user's permissions apply to the directory. */
const changeDirectory = 'cd -- "$1" || exit 125; shift; exec "$@"';
/** Waits for the lines of `launchOrder`. They are literal: nothing in them is expanded. Nothing runs before the last one. */
const waiting = `
coral_mode=
while IFS= read -r coral_line <&3; do
  case $coral_line in
    =*) set -- "$@" "\${coral_line#=}" ;;
    .*) coral_mode=\${coral_line#.}; break ;;
    *) exit 125 ;;
  esac
done
[ -n "$coral_mode" ] || exit 125
export ${commandVariable}="$1"
[ -z "$2" ] || cd -- "$2" || exit 125
shift 2
${become}`;

/** The argv. Throws `unsupported` if the required tools are missing on this host. */
export function launchArgv(options: LaunchOptions): [string, ...string[]] {
  const shell = tool(["/bin/sh", "/usr/bin/sh"], "run commands", "a shell at /bin/sh");
  const memoryKib = options.readOnly ? String(Math.ceil(options.readOnly.memoryBytes / 1_024)) : "";
  const limits = [modeOf(options.redirections), memoryKib];
  return [shell, "-c", script, "coral-launch", ...limits, ...options.joinFiles, "--", ...chainOf(options, shell)];
}

/** The argv of a prepared process: runs every step that does not depend on the program, then waits for it; see `launchOrder`. */
export function waitingArgv(options: Pick<LaunchOptions, "joinFiles" | "user" | "groups" | "readOnly">): [string, ...string[]] {
  const shell = tool(["/bin/sh", "/usr/bin/sh"], "run commands", "a shell at /bin/sh");
  const redirections = { dropStdout: false, dropStderr: false, stderrToStdout: false };
  const args = ["-c", waiting, "coral-wait"];
  return launchArgv({ ...options, file: shell, args, redirections, capabilities: [], target: undefined, workingDirectory: "" });
}

/** Shells read lines byte by byte and append each word to `$@`, which is quadratic. */
const maxOrderBytes = 16 * 1024;
/** Further words make `launchOrder` return undefined, and the command gets a new process. */
const maxOrderWords = 256;

/** Input that makes a prepared process execute the program; undefined if it cannot be expressed in lines. */
export function launchOrder(
  commandId: string,
  options: Pick<LaunchOptions, "file" | "args" | "redirections" | "workingDirectory">,
): string | undefined {
  const words = [commandId, options.workingDirectory, options.file, ...options.args];
  if (words.length > maxOrderWords || words.some((word) => word.includes("\n"))) return undefined;
  const order = `${words.map((word) => `=${word}\n`).join("")}.${modeOf(options.redirections)}\n`;
  return Buffer.byteLength(order) > maxOrderBytes ? undefined : order;
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

/** Drops privileges permanently. The user is switched after namespaces are entered, which needs root. */
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

/** `nsenter` changes the namespaces, then the user, so that the program cannot switch back. */
function enter(target: ProcessView, { user, workingDirectory }: LaunchOptions): string[] {
  const nsenter = tool(["/usr/bin/nsenter", "/bin/nsenter"], "enter the namespaces of a process", "nsenter of util-linux");
  if (user === undefined || !mayEnterNamespaces()) {
    throw new CoralError({
      code: "unsupported",
      message: `Cannot enter the namespaces of process ${target.pid}: the agent lacks permission; run it as root with CAP_SYS_ADMIN and CAP_SYS_CHROOT, or name the container so that its runtime can`,
    });
  }
  if (user.uid === 0) {
    // With the agent's capabilities it would have more privileges than any process in the container.
    throw new CoralError({
      code: "unsupported",
      message: "Cannot run as root inside the namespaces of another process: only a container runtime can do that safely",
    });
  }
  if (target.namespaces.includes("user")) {
    throw new CoralError({
      code: "unsupported",
      message: "Cannot enter a process in its own user namespace: only its container runtime can run programs there",
    });
  }
  return [
    nsenter,
    `--target=${target.pid}`,
    ...target.namespaces.flatMap((kind) => namespaceFlags[kind] ?? []),
    ...(target.rootPrefix === "" ? [] : ["--root"]),
    // Resolved inside the target: otherwise a link could lead out.
    ...(workingDirectory === "" ? [] : [`--wdns=${workingDirectory}`]),
    `--setgid=${user.gid}`,
    `--setuid=${user.uid}`,
    "--",
  ];
}

/** Whether this agent can enter the namespaces of other processes. */
export function mayEnterNamespaces(): boolean {
  return process.getuid?.() === 0 && mayGiveCapability("sys_admin") && mayGiveCapability("sys_chroot");
}

function tool(paths: readonly string[], what: string, name: string): string {
  const path = paths.find((candidate) => existsSync(candidate));
  if (path === undefined) throw new CoralError({ code: "unsupported", message: `Cannot ${what}: ${name} is missing on this host` });
  return path;
}
