/** Starts an allowed command: through the container's runtime, at a terminal, as a pipeline, or in a prepared process. */

import type { Logger } from "../base/log.ts";
import { type ContainerDirectory, mayGiveCapability } from "../host/index.ts";
import type { CommandOrder } from "./command-runner.ts";
import type { AllowedStage, Decision } from "./policy/policy.ts";
import { commandVariable } from "./processes/command-environment.ts";
import { type CommandGroups, type GroupLimits, openCommandGroups } from "./processes/command-groups.ts";
import type { Place } from "./processes/find-place.ts";
import { type CommandUser, findGroups } from "./processes/find-user.ts";
import { launchArgv, launchOrder, mayEnterNamespaces } from "./processes/launch-argv.ts";
import { newMarkGroup, ProcessTree } from "./processes/process-tree.ts";
import { ReadyLaunches } from "./processes/ready-launches.ts";
import { runInContainer } from "./processes/run-in-container.ts";
import { runPipeline } from "./processes/run-pipeline.ts";
import { runTerminal } from "./processes/run-terminal.ts";
import type { CommandBounds, RunningCommand } from "./processes/running-command.ts";
import { createSpawner, type Spawner } from "./processes/spawner.ts";
import { startWatchdog, type Watchdog } from "./processes/watchdog.ts";

/** A command with its resolved target and the policy's decision. */
export interface PreparedCommand {
  place: Place;
  decision: Decision;
  user: CommandUser;
  environment: Record<string, string>;
  bounds: CommandBounds;
}

export interface CommandLauncherOptions {
  limits: () => GroupLimits;
  containers: ContainerDirectory | undefined;
  /** Default: control groups of this machine, if the agent may create any. */
  groups?: CommandGroups;
  log: Logger;
}

type LaunchedOrder = Pick<CommandOrder, "commandId" | "kind" | "terminal" | "workingDirectory">;

/** Starts its helper processes with the first command, so that an agent without commands has none. */
export class CommandLauncher implements AsyncDisposable {
  readonly #options: CommandLauncherOptions;
  readonly #spawner: Spawner;
  readonly #ready: ReadyLaunches;
  #groups: CommandGroups | undefined;
  #watchdog: Watchdog | undefined;

  constructor(options: CommandLauncherOptions) {
    this.#options = options;
    this.#spawner = createSpawner(options.log);
    this.#ready = new ReadyLaunches({ spawner: this.#spawner, groups: () => this.#keeper().groups, log: options.log });
  }

  /** Limits that are enforced here: `memory`, `cpu`, `pids`. */
  get limited(): readonly string[] {
    return this.#keeper().groups.limited;
  }

  /** Throws if the command cannot be started; no process of it is left then. */
  async launch(order: LaunchedOrder, prepared: PreparedCommand): Promise<RunningCommand> {
    const { place, decision, user, bounds } = prepared;
    const { containers } = this.#options;
    if (usesRuntime(place, user) && place.container && containers) {
      const programs = decision.stages.map(({ file, argv, stage }) => ({ argv: [file, ...argv.slice(1)], stage }));
      return runInContainer({ containers, container: place.container, programs, terminal: order.terminal, bounds });
    }
    return this.#launchReady(order, prepared) ?? (await this.#launchNew(order, prepared));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#ready[Symbol.asyncDispose]();
    this.#spawner[Symbol.dispose]();
    this.#watchdog?.[Symbol.dispose]();
    this.#groups?.close();
  }

  /** Uses a prepared process. Undefined if none is ready, or if the command needs more than a prepared process supports. */
  #launchReady(order: LaunchedOrder, { place, decision, user, environment, bounds }: PreparedCommand): RunningCommand | undefined {
    const [stage, another] = decision.stages;
    if (order.kind !== "exec" || order.terminal || place.target || !stage || another) return undefined;
    if (stage.capabilities.length > 0 || stage.groups.length > 0) return undefined;
    const { file, argv, stage: redirections, stopAfterMs } = stage;
    const words = launchOrder(order.commandId, { file, args: argv.slice(1), redirections, workingDirectory: order.workingDirectory });
    if (words === undefined) return undefined;
    const { [commandVariable]: _, ...shared } = environment;
    const limits = this.#options.limits();
    const readOnly = readOnlyLimits(stage, limits);
    const expected = { user: user.ids, environment: shared, limits, readOnly, mayMark: mayMark(user, place) };
    const ready = this.#ready.take(expected);
    if (!ready) return undefined;
    const tree = new ProcessTree(ready.group, order.commandId, this.#keeper().watchdog, ready.markGroupId);
    const { log } = this.#options;
    // The program starts while the rest is set up; its output is read from the next turn of the event loop on.
    ready.begin(words);
    return runPipeline({ spawned: ready.spawned, tree, bounds, interruptMs: [stopAfterMs], isWrapped: false, log });
  }

  async #launchNew(order: LaunchedOrder, prepared: PreparedCommand): Promise<RunningCommand> {
    const { place, decision, user, environment, bounds } = prepared;
    const { limits, log } = this.#options;
    const { groups, watchdog } = this.#keeper();
    // A program of `run` is an application: it gets a control group, but no limits.
    const group = await groups.create(order.commandId, order.kind === "run" ? undefined : limits());
    const markGroupId = group === undefined && mayMark(user, place) ? newMarkGroup() : undefined;
    const tree = new ProcessTree(group, order.commandId, watchdog, markGroupId);
    const isWrapped = place.target?.namespaces.includes("pid") === true;
    try {
      const programs = decision.stages.map(({ file, argv, stage, isDiagnostic, capabilities, groups: groupNames }) =>
        launchArgv({
          file,
          args: argv.slice(1),
          redirections: stage,
          joinFiles: group?.joinFiles ?? [],
          readOnly: readOnlyLimits({ isDiagnostic }, limits()),
          user: user.ids,
          groups: place.target ? [] : [...findGroups(groupNames), ...(markGroupId === undefined ? [] : [markGroupId])],
          capabilities: place.target ? [] : capabilities.filter((name) => mayGiveCapability(name)),
          target: place.target,
          workingDirectory: order.workingDirectory,
        }),
      );
      const [program] = programs;
      if (order.terminal && program)
        return await runTerminal({ program, environment, terminal: order.terminal, tree, bounds, isWrapped, log });
      const interruptMs = decision.stages.map(({ stopAfterMs }) => stopAfterMs);
      const spawned = await this.#spawner.start({ programs, environment });
      return runPipeline({ spawned, tree, bounds, interruptMs, isWrapped, log });
    } catch (error) {
      await tree.kill();
      throw error;
    }
  }

  #keeper(): { groups: CommandGroups; watchdog: Watchdog } {
    this.#groups ??= this.#options.groups ?? openCommandGroups({ log: this.#options.log });
    this.#watchdog ??= startWatchdog(this.#groups.parents, this.#options.log);
    return { groups: this.#groups, watchdog: this.#watchdog };
  }
}

function readOnlyLimits({ isDiagnostic }: Pick<AllowedStage, "isDiagnostic">, { memoryBytes }: GroupLimits) {
  return isDiagnostic ? { memoryBytes } : undefined;
}

/** Whether a root agent runs it as another user than root, outside of containers. */
function mayMark(user: CommandUser, place: Place): boolean {
  return user.ids !== undefined && user.ids.uid !== 0 && place.target === undefined;
}

/** The container's runtime runs the command if the agent may not enter the container, or if the command runs as root or the container's user: then the container's limits apply. */
export function usesRuntime({ isRuntimeOnly, container, target }: Place, user: CommandUser): boolean {
  if (isRuntimeOnly) return true;
  if (!container || !target) return false;
  return user.ids === undefined || user.ids.uid === 0 || target.namespaces.includes("user") || !mayEnterNamespaces();
}
