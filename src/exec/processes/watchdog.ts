/** A small process that outlives the agent: when the agent exits, it kills every command that the agent ran. */

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import type { Logger } from "../../base/log.ts";
import { commandVariable } from "./command-environment.ts";

/** Disposing it closes its input: it then kills what is still registered, and exits. */
export interface Watchdog extends Disposable {
  /** Pid; undefined if it could not be started. */
  readonly pid: number | undefined;
  /** Registers a command without a control group: its session and the mark of its processes. */
  add(pid: number, commandId: string): void;
  /** Registers a command by a supplementary group that only its processes have; see ProcessTree. */
  addGroup(groupId: number): void;
  removeGroup(groupId: number): void;
  remove(pid: number, commandId: string): void;
}

/**
 * Reads its input, which ends with the agent, even if the agent is killed. Its arguments are the directories of the agent's groups. It has its own group
 * next to them, so that killing the agent's whole group does not kill it. Pids and marks arrive as lines.
 */
const script = `
trap '' TERM INT HUP QUIT PIPE
for d; do mkdir "$d/_watchdog" 2>/dev/null; echo 0 2>/dev/null >"$d/_watchdog/cgroup.procs"; done
pids= marks= groups=
while read -r what pid mark; do
  case $what in
    +) pids="$pids $pid" marks="$marks $mark" ;;
    g) groups="$groups $pid" ;;
    h) n=; for p in $groups; do [ "$p" = "$pid" ] || n="$n $p"; done; groups=$n ;;
    -) n=; for p in $pids; do [ "$p" = "$pid" ] || n="$n $p"; done; pids=$n
       n=; for m in $marks; do [ "$m" = "$mark" ] || n="$n $m"; done; marks=$n ;;
  esac
done
for p in $pids; do kill -9 "-$p" 2>/dev/null; done
for m in $groups; do
  for e in /proc/[0-9]*/status; do
    if grep -Eq "^Groups:.*[[:space:]]$m([[:space:]]|$)" "$e" 2>/dev/null; then e=\${e%/status}; kill -9 "\${e#/proc/}" 2>/dev/null; fi
  done
done
for m in $marks; do
  for e in /proc/[0-9]*/environ; do
    if grep -qzxF "$COMMAND_VARIABLE=$m" "$e" 2>/dev/null; then e=\${e%/environ}; kill -9 "\${e#/proc/}" 2>/dev/null; fi
  done
done
for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  left=
  for d; do
    for g in "$d"/*/; do
      case $g in */_watchdog/) continue ;; esac
      [ -d "$g" ] || continue
      [ -e "\${g}cgroup.kill" ] && echo 1 2>/dev/null >"\${g}cgroup.kill"
      while read -r p; do left=1; kill -9 "$p" 2>/dev/null; done 2>/dev/null <"\${g}cgroup.procs"
      rmdir "$g" 2>/dev/null || left=1
    done
  done
  [ -z "$left" ] && break
  sleep 0.1
done
for d; do echo 0 2>/dev/null >"\${d%/*}/cgroup.procs"; rmdir "$d/_watchdog" "$d" 2>/dev/null; done
exit 0
`;

/** Without a shell on the host there is no watchdog; commands then outlive a killed agent. */
export function startWatchdog(parents: readonly string[], log: Logger): Watchdog {
  const shell = ["/bin/sh", "/usr/bin/sh"].find((path) => existsSync(path));
  if (shell === undefined) {
    log.warn("watchdog not started: this host has no /bin/sh; commands outlive a killed agent");
    return {
      pid: undefined,
      add: () => undefined,
      remove: () => undefined,
      addGroup: () => undefined,
      removeGroup: () => undefined,
      [Symbol.dispose]: () => undefined,
    };
  }
  const child: ChildProcess = spawn(shell, ["-c", script, "coral-watchdog", ...parents], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
    cwd: "/",
    env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", COMMAND_VARIABLE: commandVariable },
  });
  child.on("error", (error) => log.warn(`watchdog not started: ${error.message}; commands outlive a killed agent`));
  // Its end of the pipe may close before ours.
  child.stdin?.on("error", () => undefined);
  child.unref();
  const send = (line: string): void => {
    child.stdin?.write(`${line}\n`);
  };
  return {
    pid: child.pid,
    add: (pid, commandId) => send(`+ ${pid} ${commandId}`),
    remove: (pid, commandId) => send(`- ${pid} ${commandId}`),
    addGroup: (groupId) => send(`g ${groupId}`),
    removeGroup: (groupId) => send(`h ${groupId}`),
    [Symbol.dispose]: () => child.stdin?.end(),
  };
}
