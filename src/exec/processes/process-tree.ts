/**
 * All processes of one command, including daemonized ones. Identified by the control group if there is one; else by a unique supplementary group, which
 * an unprivileged process cannot drop; and for an agent without root, by session and a variable in the environment.
 */

import { randomInt } from "node:crypto";
import { sleep } from "../../base/clock.ts";
import { processesWithGroup, processesWithVariable } from "../../host/index.ts";
import { commandVariable } from "./command-environment.ts";
import type { CommandGroup } from "./command-groups.ts";
import type { Watchdog } from "./watchdog.ts";

/** A process may fork while it is being killed, so the list is read again until it is empty: at most 200 times 10 ms. */
const killRounds = 200;
/** Between two rounds. */
const killPauseMs = 10;
/** Above the group ids of systems and user namespaces, below the signed 32-bit limit. */
const firstMarkId = 2_100_000_000;
/** Number of ids; the last one stays below 2^31. */
const markIds = 47_000_000;

/** A group id for a command that a root agent without control groups runs as another user. */
export function newMarkGroup(): number {
  return firstMarkId + randomInt(markIds);
}

/** Needed because a process can leave its session, and its parent's exit does not end it. */
export class ProcessTree {
  readonly #group: CommandGroup | undefined;
  readonly #commandId: string;
  readonly #watchdog: Watchdog;
  readonly #leaders = new Set<number>();
  /** The supplementary group of its programs; undefined: none. */
  readonly markGroupId: number | undefined;

  /** `markGroupId`: see newMarkGroup. */
  constructor(group: CommandGroup | undefined, commandId: string, watchdog: Watchdog, markGroupId?: number) {
    this.#group = group;
    this.#commandId = commandId;
    this.#watchdog = watchdog;
    this.markGroupId = markGroupId;
    if (this.markGroupId !== undefined) watchdog.addGroup(this.markGroupId);
  }

  /** The leader of a session, such as a program of the pipeline. */
  add(pid: number): void {
    this.#leaders.add(pid);
    if (!this.#group) this.#watchdog.add(pid, this.#commandId);
  }

  /** One program and its session. */
  signalOne(leader: number, name: NodeJS.Signals): void {
    if (this.#leaders.has(leader)) sendTo(-leader, name);
  }

  /** `wrappers`: processes that only wait for a child, which gets the signal instead. */
  signal(name: NodeJS.Signals, wrappers: ReadonlySet<number> = new Set()): void {
    const inGroup = this.#group?.pids() ?? [];
    if (wrappers.size === 0 || inGroup.length === 0) {
      for (const pid of this.#leaders) sendTo(-pid, name);
      return;
    }
    for (const pid of inGroup) if (!wrappers.has(pid)) sendTo(pid, name);
  }

  /** Kills all processes and waits until they have exited. */
  async kill(): Promise<void> {
    for (let round = 0; round < killRounds; round++) {
      if (this.#killOnce()) break;
      await sleep(killPauseMs);
    }
    for (const pid of this.#leaders) if (!this.#group) this.#watchdog.remove(pid, this.#commandId);
    if (this.markGroupId !== undefined) this.#watchdog.removeGroup(this.markGroupId);
    this.#leaders.clear();
    if (this.#group) void removeGroup(this.#group);
  }

  #killOnce(): boolean {
    if (this.#group) return this.#group.kill();
    for (const pid of this.#leaders) sendTo(-pid, "SIGKILL");
    const byGroup = this.markGroupId === undefined ? [] : processesWithGroup(this.markGroupId);
    const byVariable = processesWithVariable(`${commandVariable}=${this.#commandId}`);
    const marked = [...byGroup, ...byVariable].filter((pid) => pid !== process.pid);
    for (const pid of marked) sendTo(pid, "SIGKILL");
    return marked.length === 0;
  }
}

/** The kernel needs a moment to release an empty group; the command's caller does not wait for it. */
export async function removeGroup(group: CommandGroup): Promise<void> {
  for (let round = 0; round < killRounds; round++) {
    await sleep(killPauseMs);
    if (await group.remove()) return;
  }
}

function sendTo(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has exited, or the pid belongs to another user by now: nothing left to signal.
  }
}
