/**
 * Pre-forked processes that wait to become a command. A start takes several times as long as `true` runs: a fork, a shell, a user switch; and the kernel
 * may need more than 10 ms to move a process into a control group. These steps are the same for most commands, so they are done in advance.
 */

import { randomBytes } from "node:crypto";
import { background } from "../../base/background.ts";
import type { Logger } from "../../base/log.ts";
import type { CommandGroup, CommandGroups, GroupLimits } from "./command-groups.ts";
import { type LaunchUser, waitingArgv } from "./launch-argv.ts";
import { newMarkGroup, removeGroup } from "./process-tree.ts";
import type { SpawnedPrograms, Spawner } from "./spawner.ts";

/** Facts about a command that are known before it is requested. */
export interface ExpectedCommand {
  user: LaunchUser | undefined;
  /** The launch without the parts that differ between commands. */
  environment: Readonly<Record<string, string>>;
  limits: GroupLimits | undefined;
  /** Limits of the read-only profile; undefined: it runs by a rule. */
  readOnly: { memoryBytes: number } | undefined;
  /** Whether its processes are identified by a supplementary group where there is no control group. */
  mayMark: boolean;
}

/** One prepared process. The caller of `take` runs or releases it. */
export interface ReadyLaunch {
  spawned: SpawnedPrograms;
  group: CommandGroup | undefined;
  markGroupId: number | undefined;
  /** Becomes the command; see launchOrder. */
  begin(order: string): void;
}

interface Waiting extends ReadyLaunch {
  key: string;
  release(): Promise<void>;
}

/** Prepared processes of one shape, for commands in quick succession. */
const maxAlike = 3;
/** Prepared processes of all shapes together. */
const maxWaiting = 6;
/** Delay after a command started: preparing the next one must not slow it down. */
const refillDelayMs = 15;
/** Prepared processes are released after this time without a command. */
const idleMs = 60_000;

export interface ReadyLaunchesOptions {
  spawner: Spawner;
  groups: () => CommandGroups;
  log: Logger;
}

/** Prepares only after a first command, and only for its shape: the same user, environment and limits. */
export class ReadyLaunches implements AsyncDisposable {
  readonly #options: ReadyLaunchesOptions;
  readonly #waiting: Waiting[] = [];
  readonly #working = new Set<Promise<void>>();
  #making: Promise<void> = Promise.resolve();
  #refill: NodeJS.Timeout | undefined;
  #idle: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: ReadyLaunchesOptions) {
    this.#options = options;
  }

  /** Number of waiting processes. */
  get size(): number {
    return this.#waiting.length;
  }

  /** Undefined if none is ready; one is then prepared for later commands of this shape. */
  take(expected: ExpectedCommand): ReadyLaunch | undefined {
    if (this.#isClosed) return undefined;
    const key = JSON.stringify(expected);
    const index = this.#waiting.findIndex((waiting) => waiting.key === key);
    const [taken] = index < 0 ? [] : this.#waiting.splice(index, 1);
    this.#refill ??= setTimeout(() => {
      this.#refill = undefined;
      // One after the other: each call counts the existing ones.
      this.#making = this.#making.catch(() => undefined).then(() => this.#makeReady(expected, key));
      this.#work(this.#making);
    }, refillDelayMs).unref();
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this.#work(this.#clear(0)), idleMs).unref();
    return taken;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#refill);
    clearTimeout(this.#idle);
    await Promise.allSettled(this.#working);
    await this.#clear(0);
  }

  #work(work: Promise<void>): void {
    this.#working.add(work);
    background(
      this.#options.log,
      "Preparing processes for commands",
      work.finally(() => this.#working.delete(work)),
    );
  }

  async #makeReady(expected: ExpectedCommand, key: string): Promise<void> {
    const missing = maxAlike - this.#waiting.filter((waiting) => waiting.key === key).length;
    // Concurrently: most of the time is spent waiting for the kernel.
    await Promise.all(Array.from({ length: Math.max(0, missing) }, () => this.#add(expected, key)));
    await this.#clear(maxWaiting);
  }

  async #add(expected: ExpectedCommand, key: string): Promise<void> {
    const waiting = await this.#start(expected, key);
    this.#waiting.push(waiting);
    // A process that exits was killed, or failed for a reason that the command will report.
    void waiting.spawned.programs[0]?.exited.then(() => {
      const index = this.#waiting.indexOf(waiting);
      if (index < 0) return;
      this.#waiting.splice(index, 1);
      this.#work(waiting.release());
    });
  }

  async #start({ user, environment, limits, readOnly, mayMark }: ExpectedCommand, key: string): Promise<Waiting> {
    const { spawner, groups } = this.#options;
    const group = await groups().create(`ready-${randomBytes(6).toString("hex")}`, limits);
    const markGroupId = group === undefined && mayMark ? newMarkGroup() : undefined;
    try {
      const groupIds = markGroupId === undefined ? [] : [markGroupId];
      const words = waitingArgv({ joinFiles: group?.joinFiles ?? [], user, groups: groupIds, readOnly });
      const spawned = await spawner.start({ programs: [words], environment, takesOrders: true });
      return { key, spawned, group, markGroupId, begin: (order) => spawned.orders?.end(order), release: () => release(spawned, group) };
    } catch (error) {
      if (group) void removeGroup(group);
      throw error;
    }
  }

  /** Releases the oldest until `left` remain. */
  async #clear(left: number): Promise<void> {
    const many = this.#waiting.splice(0, Math.max(0, this.#waiting.length - left));
    await Promise.all(many.map((waiting) => waiting.release()));
  }
}

/** It exits when its input is closed. */
async function release({ programs, orders, stdin, stdout }: SpawnedPrograms, group: CommandGroup | undefined): Promise<void> {
  orders?.destroy();
  group?.kill();
  await Promise.all(programs.map(({ exited }) => exited));
  for (const stream of [stdin, stdout, ...programs.map(({ stderr }) => stderr)]) stream.destroy();
  if (group) void removeGroup(group);
}
