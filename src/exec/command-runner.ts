/** Runs a command from the request to its audited end: parse, find the target, check the policy, launch. */

import { background } from "../base/background.ts";
import type { Clock } from "../base/clock.ts";
import { CoralError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { ContainerDirectory } from "../host/index.ts";
import { redactCommand } from "../redact/index.ts";
import type { AuditPhase, CommandAudit, CommandAuditEntry, CommandCaller } from "./command-audit.ts";
import { CommandLauncher, type PreparedCommand, usesRuntime } from "./launch-command.ts";
import { type ApprovalDecision, Approvals } from "./policy/approvals.ts";
import type { ExecSettings } from "./policy/exec-settings.ts";
import { formatCommand, parseCommand, type Stage, stageOfArgv } from "./policy/parse-command.ts";
import { type AllowedStage, decide, refusal, ruleWarnings } from "./policy/policy.ts";
import { commandEnvironment } from "./processes/command-environment.ts";
import type { CommandGroups } from "./processes/command-groups.ts";
import { findPlace, neighbourTargets, type Place, type PlaceWanted, ruleTargets, targetText } from "./processes/find-place.ts";
import { findUser } from "./processes/find-user.ts";
import type { TerminalShape } from "./processes/run-terminal.ts";
import type { CommandBounds, CommandEnd, RunningCommand } from "./processes/running-command.ts";
import { type Recording, Recordings, recorded } from "./recordings/recordings.ts";

/** The requested command, checked again here for every caller. */
export interface CommandOrder {
  /** UUID. */
  commandId: string;
  kind: "exec" | "shell" | "run";
  /** One program with its arguments; if empty, `text` is used. A shell may have neither. */
  argv: readonly string[];
  text: string;
  target: PlaceWanted;
  workingDirectory: string;
  environment: Readonly<Record<string, string>>;
  /** 0: the configured limit. */
  timeoutMs: number;
  maxOutputBytes: number;
  terminal: TerminalShape | undefined;
  caller: CommandCaller;
  /** Service name for `run`; empty: the program's name. */
  serviceName: string;
  isDetached: boolean;
  isReadOnly: boolean;
}

/** A program that `run` has started. */
export interface LaunchedProgram {
  name: string;
  pid: number;
}

export interface CommandRunnerOptions {
  settings: () => ExecSettings;
  /** Of the colony, or the agent's label. */
  environment: () => string;
  audit: CommandAudit;
  pidsOf: (service: string) => Promise<readonly number[]>;
  /** Names of the services of these processes. Default: unknown. */
  servicesOf?: (isMeant: (pid: number) => boolean) => readonly string[];
  /** Why the agent's runtime does not support this kind of command, with the fix; null if it does. Default: supported. */
  absent?: (kind: CommandOrder["kind"]) => { reason: string; fix: string } | null;
  containers: ContainerDirectory | undefined;
  recordingsDirectory: string;
  /** Called when a program of `run` starts; the returned function is called when it ends. */
  onLaunched?: (program: LaunchedProgram) => () => void;
  /** Default: control groups of this machine, if the agent may create any. */
  groups?: CommandGroups;
  clock: Clock;
  log: Logger;
}

/** A running command with what was decided about it. */
export interface StartedCommand {
  running: RunningCommand;
  programs: readonly string[];
  where: string;
  rule: string;
  user: string;
  /** 0: unbounded. */
  timeoutMs: number;
  maxOutputBytes: number;
  recording: string;
  /** Resolves when the audit log has the end. */
  ended: Promise<CommandEnd>;
}

/** A command that waits for an approval. Its connection stays open meanwhile. */
export interface HeldCommand {
  approvalId: string;
  rule: string;
  expiresAtMs: number;
}

/** Facts about a command so far, for its audit entries. */
interface Known {
  order: CommandOrder;
  command: string;
  where: string;
  rule: string;
  user: string;
}

/** One per agent. Disposing it ends all commands and waits until their ends are audited. */
export class CommandRunner implements AsyncDisposable {
  readonly #options: CommandRunnerOptions;
  readonly #approvals = new Approvals();
  readonly #recordings: Recordings;
  readonly #running = new Set<RunningCommand>();
  readonly #ending = new Set<Promise<unknown>>();
  readonly #launcher: CommandLauncher;
  #reserved = 0;

  constructor(options: CommandRunnerOptions) {
    this.#options = options;
    for (const warning of ruleWarnings(options.settings().rules)) options.log.warn(warning);
    this.#launcher = new CommandLauncher({ ...options, limits: () => options.settings().limits });
    this.#recordings = new Recordings(options.recordingsDirectory, () => options.settings().recordings, options.log);
  }

  /** Number of running commands. */
  get running(): number {
    return this.#running.size;
  }

  /** Limits that are enforced here: `memory`, `cpu`, `pids`. */
  get limited(): readonly string[] {
    return this.#launcher.limited;
  }

  /** Throws if the command is denied or cannot start; the refusal is already audited. `onHeld` is called when it waits for an approval. */
  async start(order: CommandOrder, signal: AbortSignal, onHeld: (held: HeldCommand) => void): Promise<StartedCommand> {
    const known: Known = { order, command: wordsOf(order), where: "", rule: "", user: "" };
    let prepared = await this.#prepareAudited(known, signal);
    if (prepared.decision.action === "require_approval") {
      await this.#hold(known, signal, onHeld);
      // The wait may have been long: check the policy again.
      prepared = await this.#prepareAudited(known, signal);
    }
    return this.#begin(known, prepared, signal);
  }

  decide(approvalId: string, decision: ApprovalDecision): void {
    this.#approvals.decide(approvalId, decision);
  }

  readRecording(name: string): AsyncGenerator<Uint8Array> {
    return this.#recordings.read(name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled([...this.#running].map((running) => running[Symbol.asyncDispose]()));
    await Promise.allSettled(this.#ending);
    await this.#launcher[Symbol.asyncDispose]();
  }

  async #prepareAudited(known: Known, signal: AbortSignal): Promise<PreparedCommand> {
    try {
      const prepared = await this.#prepare(known, signal);
      const { maxRunning } = this.#options.settings();
      if (this.#running.size + this.#reserved < maxRunning) return prepared;
      throw new CoralError({
        code: "exhausted",
        message: `Cannot run a command: ${maxRunning} commands are running on this host already (exec.max_running); try again later`,
      });
    } catch (error) {
      const problem = CoralError.from(error);
      await this.#audit(known, "denied", { reason: problem.message });
      throw problem;
    }
  }

  async #prepare(known: Known, signal: AbortSignal): Promise<PreparedCommand> {
    const { order } = known;
    const settings = this.#options.settings();
    if (!/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(order.commandId))
      throw new CoralError({ code: "invalid", message: "Cannot run a command: its id is not a UUID" });
    // The colony may have sent the command to the wrong agent.
    const absent = this.#options.absent?.(order.kind) ?? null;
    if (absent) throw new CoralError({ code: "unsupported", message: `Cannot ${order.kind} here: ${absent.reason}; ${absent.fix}` });
    if (settings.profile === "off") {
      known.rule = "profile off";
      throw refusal({ rule: known.rule, why: "commands are disabled on this host (exec.profile: off)" });
    }
    const place = await findPlace(order.target, this.#options, signal);
    known.where = place.where;
    const stages = stagesOf(order, place);
    known.command = formatCommand(stages);
    const decision = decide(settings, {
      stages,
      kind: order.kind,
      caller: order.caller.name,
      targets: ruleTargets(order.target, place),
      // Only if a rule needs it: it reads every process of every service.
      neighbours: settings.rules.some(({ target }) => target.length > 0) ? neighbourTargets(place, this.#options) : [],
      isUnnamed: place.isUnnamed,
      environment: this.#options.environment(),
      isModel: order.caller.through !== "cli",
      isReadOnly: order.isReadOnly,
      files: place.files,
      workingDirectory: order.workingDirectory,
    });
    known.rule = decision.rule;
    if (decision.action === "deny") throw refusal(decision);
    checkFit(order, stages);
    const user = findUser({ runAs: decision.runAs ?? settings.runAs, target: place.target });
    const isByRuntime = usesRuntime(place, user);
    if (isByRuntime) checkRuntimeFit(order, decision.stages);
    known.user = isByRuntime ? "of the container" : user.name;
    const requested = commandEnvironment({
      requested: order.environment,
      // A variable could widen what a rule allows, unless the rule names it.
      allowed: settings.environmentAllow.filter((pattern) => pattern !== "*" || !decision.stages.some(({ isByRule }) => isByRule)),
      isDiagnostic: decision.stages.some(({ isDiagnostic }) => isDiagnostic),
      user,
      terminalType: order.terminal?.type ?? "",
      commandId: order.commandId,
    });
    const environment = { ...serviceVariables(order, stages), ...requested };
    return { place, decision, user, environment, bounds: boundsOf(order, settings, decision.stages) };
  }

  async #hold(known: Known, signal: AbortSignal, onHeld: (held: HeldCommand) => void): Promise<void> {
    const { clock } = this.#options;
    const { approvalTimeoutMs } = this.#options.settings();
    const approvalId = known.order.commandId;
    await this.#audit(known, "held", { reason: "waits for an approval" });
    let decision: ApprovalDecision;
    try {
      const decided = this.#approvals.wait(approvalId, approvalTimeoutMs, signal);
      onHeld({ approvalId, rule: known.rule, expiresAtMs: Math.round(clock.wallMs() + approvalTimeoutMs) });
      decision = await decided;
    } catch (error) {
      const problem = CoralError.from(error);
      await this.#audit(known, "denied", { reason: problem.message });
      throw problem;
    }
    const by = decision.decidedBy === "" ? "" : ` by ${decision.decidedBy}`;
    const why = decision.reason === "" ? "" : `: ${decision.reason}`;
    await this.#audit(known, "decided", { reason: `${decision.isApproved ? "approved" : "refused"}${by}${why}` });
    if (decision.isApproved) return;
    await this.#audit(known, "denied", { reason: `it was not approved${by}${why}` });
    throw new CoralError({
      code: "not-permitted",
      message: `Cannot run this command: it was not approved${by}${why}`,
      details: { rule: known.rule },
    });
  }

  /** Writes the audit entry first: nothing runs without one. */
  async #begin(known: Known, prepared: PreparedCommand, signal: AbortSignal): Promise<StartedCommand> {
    const { order } = known;
    this.#reserved++;
    let recording: Recording | undefined;
    try {
      recording = order.terminal
        ? await this.#recordings.start({
            commandId: order.commandId,
            ...order.terminal,
            terminalType: order.terminal.type,
            title: redactCommand(known.command),
          })
        : undefined;
      await this.#audit(known, "begun", { recording: recording?.name ?? "" });
    } catch (error) {
      this.#reserved--;
      await recording?.close();
      throw error;
    }
    let running: RunningCommand;
    try {
      signal.throwIfAborted();
      const plain = await this.#launcher.launch(order, prepared);
      running = recording ? recorded(plain, recording) : plain;
    } catch (error) {
      const problem = CoralError.from(error);
      await recording?.close();
      await this.#audit(known, "ended", { reason: "failed", exitCode: 126 });
      throw problem;
    } finally {
      this.#reserved--;
    }
    return this.#watch(known, prepared, running, recording, signal);
  }

  #watch(
    known: Known,
    { bounds, decision, place }: PreparedCommand,
    running: RunningCommand,
    recording: Recording | undefined,
    signal: AbortSignal,
  ): StartedCommand {
    const { order } = known;
    this.#running.add(running);
    const leave = (): void => (order.isDetached && order.kind === "run" ? running.drain() : running.stop("cancelled"));
    signal.addEventListener("abort", leave, { once: true });
    if (signal.aborted) leave();
    const forget =
      order.kind === "run" ? this.#options.onLaunched?.({ name: serviceNameOf(order, decision.stages), pid: running.pid }) : undefined;
    const finish = async (): Promise<CommandEnd> => {
      try {
        const end = await running.ended;
        const recordingSha256 = (await recording?.close()) ?? "";
        const { reason, exitCode, stdoutBytes, stderrBytes, durationMs } = end;
        const kept = { recording: recording?.name ?? "", recordingSha256 };
        await this.#audit(known, "ended", { reason, exitCode, stdoutBytes, stderrBytes, durationMs, ...kept });
        return end;
      } finally {
        signal.removeEventListener("abort", leave);
        forget?.();
        this.#running.delete(running);
        this.#ending.delete(ended);
      }
    };
    const ended = finish();
    this.#ending.add(ended);
    background(this.#options.log, "Auditing the end of a command", ended);
    return {
      running,
      programs: decision.stages.map(({ file }) => file),
      where: place.where,
      rule: known.rule,
      user: known.user,
      timeoutMs: bounds.timeoutMs ?? 0,
      maxOutputBytes: bounds.maxOutputBytes ?? 0,
      recording: recording?.name ?? "",
      ended,
    };
  }

  async #audit({ order, command, where, rule, user }: Known, phase: AuditPhase, rest: Partial<CommandAuditEntry>): Promise<void> {
    await this.#options.audit.write({
      phase,
      commandId: order.commandId,
      kind: order.kind,
      caller: order.caller,
      target: targetText(order.target),
      where,
      command,
      rule,
      user,
      reason: "",
      exitCode: null,
      stdoutBytes: 0,
      stderrBytes: 0,
      durationMs: 0,
      recording: "",
      ...rest,
    });
  }
}

function wordsOf({ argv, text }: CommandOrder): string {
  return argv.length > 0 ? argv.join(" ") : text;
}

const shells = ["/bin/bash", "/usr/bin/bash", "/bin/ash", "/bin/sh"];

function stagesOf(order: CommandOrder, { files }: Place): Stage[] {
  if (order.argv.length > 0) return [stageOfArgv(order.argv)];
  if (order.text.trim() !== "") return parseCommand(order.text);
  if (order.kind !== "shell") throw new CoralError({ code: "usage", message: "Cannot run a command: it is empty" });
  return [stageOfArgv([files.isUnseen ? "/bin/sh" : (shells.find((path) => files.resolve(path) !== null) ?? "/bin/sh")])];
}

function checkFit(order: CommandOrder, stages: readonly Stage[]): void {
  if (order.terminal && stages.length > 1)
    throw new CoralError({ code: "usage", message: "Cannot run a pipeline at a terminal: run one program, or omit the terminal" });
  if (order.kind === "shell" && !order.terminal) throw new CoralError({ code: "usage", message: "Cannot open a shell without a terminal" });
  if (order.kind === "run" && stages.length > 1)
    throw new CoralError({ code: "usage", message: "Cannot run a pipeline as a service: run one program" });
  const { workingDirectory } = order;
  if (workingDirectory !== "" && (!workingDirectory.startsWith("/") || workingDirectory.includes("\0")))
    throw new CoralError({ code: "usage", message: `Cannot use working directory "${workingDirectory}": not an absolute path` });
}

function checkRuntimeFit({ workingDirectory, environment }: CommandOrder, stages: readonly AllowedStage[]): void {
  const spilling = stages.find(({ spills }) => spills);
  if (spilling)
    throw new CoralError({
      code: "unsupported",
      message: `Cannot run ${spilling.program.name} in this container: it could fill the disk with temporary files, and a container runtime sets no limit on them; pipe the output through it outside of the container`,
    });
  if (workingDirectory === "" && Object.keys(environment).length === 0) return;
  throw new CoralError({
    code: "unsupported",
    message: "Cannot set a directory or variables: the container's runtime starts the program, and supports neither",
  });
}

/** Discovery and OpenTelemetry SDKs take the service name from this variable. */
function serviceVariables(order: CommandOrder, stages: readonly Stage[]): Record<string, string> {
  return order.kind === "run" ? { OTEL_SERVICE_NAME: order.serviceName || nameOfFirst(stages) } : {};
}

function serviceNameOf(order: CommandOrder, stages: readonly AllowedStage[]): string {
  return order.serviceName || (stages[0]?.program.name ?? "");
}

function nameOfFirst(stages: readonly Stage[]): string {
  return (stages[0]?.argv[0] ?? "").split("/").at(-1) ?? "";
}

function boundsOf(order: CommandOrder, settings: ExecSettings, stages: readonly AllowedStage[]): CommandBounds {
  const isBounded = order.kind === "exec";
  const atMost = (requested: number, max: number): number | undefined =>
    isBounded ? Math.min(requested > 0 ? requested : max, max) : requested > 0 ? requested : undefined;
  const stopAfter = stages.flatMap(({ stopAfterMs }) => stopAfterMs ?? []);
  return {
    timeoutMs: atMost(order.timeoutMs, settings.timeoutMs),
    maxOutputBytes: order.terminal ? undefined : atMost(order.maxOutputBytes, settings.maxOutputBytes),
    stopAfterMs: stopAfter.length === 0 ? undefined : Math.min(...stopAfter),
  };
}
