/** Runs a command from resolving its targets to its exit code, for `coral exec`, `coral shell` and `coral run`. */

import { exitCodeOf } from "../../../base/errors.ts";
import { escapeText } from "../../../base/escape-text.ts";
import { capabilityOf } from "../../../model/runtime-facts.ts";
import type { CommandEnded, CommandRouted, RoutedTarget } from "../../../proto/coral/agent/v1/commands_pb.ts";
import type { AgentStatus, RuntimeRefreshed } from "../../../tools/index.ts";
import type { CommandClient, CommandEvent, CommandEvents, CommandOrderInit, CommandOutcome, OrderKind } from "../../../transport/index.ts";
import { plural } from "../../output/values.ts";
import { askAgent, connectColony, openAgentCommand } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { endText, exitCodeOfAll, exitCodeOfSignal, exitCodes } from "./command-exit.ts";
import { type CommandInputSource, pipedInput } from "./command-keyboard.ts";
import {
  type CommandOutput,
  eventJson,
  jsonLine,
  jsonOutput,
  plainOutput,
  prefixedOutput,
  routedJson,
  targetNames,
} from "./command-output.ts";
import { localUnsupportedPage, refusedTargets, skippedLines, unsupportedPage } from "./command-targets-page.ts";
import type { WantedCommand } from "./wanted-command.ts";

/** `terminal` is the size and type of the local terminal; absent for a command without one. */
export interface RunWantedOptions {
  wanted: WantedCommand;
  terminal?: NonNullable<CommandOrderInit["terminal"]>;
  /** Default: none, end of file is sent at once. */
  input?: CommandInputSource;
}

/** Sets the exit code. A command that no target supports prints its page on stderr and exits with 2. */
export async function runWanted(invocation: Invocation, options: RunWantedOptions): Promise<void> {
  const { wanted, terminal } = options;
  const order: WantedCommand = { ...wanted, caller: { through: "cli" }, ...(terminal ? { terminal } : {}) };
  try {
    const conversation = new Conversation(invocation, order, await open(invocation, order));
    invocation.setExitCode(await conversation.run(options.input ?? pipedInput(undefined)));
  } catch (error) {
    const { print, io } = invocation;
    const refused = refusedTargets(error);
    const page = refused ? unsupportedPage(refused, print.noteStyle) : error instanceof UnsupportedHere ? error.page : undefined;
    if (page === undefined) throw error;
    io.stderr.write(print.commands(page));
    invocation.setExitCode(exitCodeOf("unsupported"));
  }
}

/**
 * Resolves targets first, to report every problem before the command starts. The colony resolves them again when the command
 * arrives, and audits refusals.
 */
async function open(invocation: Invocation, { kind, targets }: WantedCommand): Promise<CommandClient> {
  if (targets === undefined) {
    const page = await localProblem(invocation, kind);
    if (page !== undefined) throw new UnsupportedHere(page);
    return await openAgentCommand(invocation);
  }
  const colony = await connectColony(invocation);
  const { one: _one, ...filters } = targets;
  await colony.call("coral_resolve_targets", { command: kind, ...filters });
  return await colony.openCommand();
}

/** Thrown when the agent of this machine cannot run the command; carries the page that shows why. */
class UnsupportedHere extends Error {
  readonly page: string;

  constructor(page: string) {
    super("not supported here");
    this.page = page;
  }
}

/** Runtime and capabilities, from the agent itself. */
async function localProblem(invocation: Invocation, command: OrderKind): Promise<string | undefined> {
  const { runtime } = await askAgent<RuntimeRefreshed>(invocation, "/v1/runtime");
  const capability = capabilityOf(runtime, command);
  if (capability === undefined || capability.available) return undefined;
  // If only the policy forbids it, send the command anyway: the agent denies it with a reason and an audit record.
  if (!runtime.runtimeType.startsWith("k8s-")) return undefined;
  const { agentId } = await askAgent<AgentStatus>(invocation, "/v1/status");
  return localUnsupportedPage({ command, agentId, runtime, capability }, invocation.print.noteStyle);
}

/**
 * One command, from the order to the last end. Output and ends of all targets arrive on one stream. `routed` comes first and once;
 * then `event` and `output` of the targets, interleaved.
 */
class Conversation implements CommandEvents {
  readonly #invocation: Invocation;
  readonly #order: WantedCommand;
  readonly #client: CommandClient;
  #targets: readonly RoutedTarget[] = [];
  #names: readonly string[] = [];
  #output: CommandOutput;
  /** Exit code to use after this end disconnected; undefined before. Output that arrives later is dropped. */
  #hungUpCode: number | undefined;
  #isDetached = false;
  #startInput: (() => void) | undefined;
  #releaseInput: (() => void) | undefined;

  constructor(invocation: Invocation, order: WantedCommand, client: CommandClient) {
    this.#invocation = invocation;
    this.#order = order;
    this.#client = client;
    this.#output = plainOutput(invocation.io);
  }

  /** The exit code. */
  async run(input: CommandInputSource): Promise<number> {
    const { io } = this.#invocation;
    const onAbort = (): void => this.#hangUp(exitCodes.lost);
    io.signal.addEventListener("abort", onAbort, { once: true });
    // The request must be sent before any input.
    const running = this.#client.run(this.#order, this);
    this.#startInput = () => {
      this.#startInput = undefined;
      this.#releaseInput = input.start(this.#client, () => this.#hangUp(exitCodes.lost));
    };
    if (!input.waitsForProgram) this.#startInput();
    const releaseSignals = this.#forwardSignals();
    let outcome: CommandOutcome;
    try {
      outcome = await running;
      for (const target of this.#targets.keys()) await this.#output.end(target);
    } finally {
      releaseSignals();
      this.#releaseInput?.();
      io.signal.removeEventListener("abort", onAbort);
    }
    return this.#sumUp(outcome.kind === "lost", outcome.ends);
  }

  routed(message: CommandRouted): void {
    const { io, print, format } = this.#invocation;
    this.#targets = message.targets;
    this.#names = targetNames(message.targets);
    if (format === "json") {
      this.#output = jsonOutput(io, message.targets);
      io.stdout.write(jsonLine(routedJson(message)));
      return;
    }
    if (message.targets.length > 1) this.#output = prefixedOutput(io, message.targets, { stdout: print.style, stderr: print.noteStyle });
    for (const warning of message.warnings) print.warning(escapeText(warning));
    const isOneOfMany = this.#order.targets?.one === true;
    for (const line of skippedLines(message.targets, message.skipped, isOneOfMany)) print.warning(escapeText(line));
  }

  event(target: number, event: CommandEvent): void {
    const { io, print, format } = this.#invocation;
    if (format === "json") {
      const { agentId = "", hostname = "" } = this.#targets[target] ?? {};
      io.stdout.write(jsonLine({ ...eventJson(event), agentId, hostname }));
    }
    if (event.case === "approvalNeeded") {
      const { rule, approvalId, expiresAtMs } = event.value;
      const until = new Date(Number(expiresAtMs)).toISOString();
      const text = `${this.#nameOf(target)}rule "${rule}" requires approval until ${until}; approve with coral approval approve ${approvalId}`;
      print.note(escapeText(text));
    }
    if (event.case === "started") this.#startInput?.();
    if (event.case === "started" && this.#order.isDetached) {
      const { programs, pid } = event.value;
      const name = this.#order.serviceName ?? programs[0] ?? "it";
      print.note(escapeText(`${this.#nameOf(target)}${name} keeps running as pid ${pid}; see coral services`));
      this.#detach();
    }
  }

  async output(target: number, stream: "stdout" | "stderr", data: Buffer): Promise<void> {
    if (this.#hungUpCode === undefined) await this.#output.write(target, stream, data);
  }

  #sumUp(isLost: boolean, ends: readonly (CommandEnded | undefined)[]): number {
    const { print, format, io } = this.#invocation;
    if (this.#isDetached) return 0;
    if (this.#hungUpCode !== undefined) return this.#hungUpCode;
    if (isLost) {
      const problem = "Cannot determine how the command ended: the connection was lost";
      io.stderr.write(`${print.noteStyle("red", "error:")} ${problem}\n`);
      return exitCodes.lost;
    }
    if (format !== "json") this.#printEnds(ends);
    return exitCodeOfAll(ends);
  }

  /** Lists the failed targets, if there are several. Success prints nothing. */
  #printEnds(ends: readonly (CommandEnded | undefined)[]): void {
    const { print, io } = this.#invocation;
    const isOne = ends.length === 1;
    for (const [target, end] of ends.entries()) {
      if (end?.reason === "exited" && (isOne || end.exitCode === 0)) continue;
      const text = `${this.#nameOf(target)}${endText(end)}`;
      if (end?.reason === "signalled" && isOne) continue;
      io.stderr.write(`${print.noteStyle("red", "error:")} ${print.commands(escapeText(text))}\n`);
    }
    const good = ends.filter((end) => end?.reason === "exited" && end.exitCode === 0).length;
    if (!isOne) print.note(print.noteStyle("dim", `${good} of ${plural(ends.length, "agent")} succeeded`));
  }

  #nameOf(target: number): string {
    return this.#targets.length > 1 ? `${this.#names[target]}: ` : "";
  }

  /** Forwards the first signal to the command; the second one disconnects, which ends the command. */
  #forwardSignals(): () => void {
    const counts = { SIGINT: 0, SIGTERM: 0 };
    const forward = (signal: keyof typeof counts) => (): void => {
      counts[signal]++;
      if (counts[signal] > 1) this.#hangUp(exitCodeOfSignal(signal));
      else this.#client.signal(signal.slice(3));
    };
    const [onInterrupt, onTerminate] = [forward("SIGINT"), forward("SIGTERM")];
    // SIGHUP: the local terminal is gone and cannot send a second signal. Disconnect at once.
    const onHangUp = (): void => this.#hangUp(exitCodeOfSignal("SIGHUP"));
    process.on("SIGINT", onInterrupt).on("SIGTERM", onTerminate).on("SIGHUP", onHangUp);
    return () => void process.off("SIGINT", onInterrupt).off("SIGTERM", onTerminate).off("SIGHUP", onHangUp);
  }

  #hangUp(exitCode: number): void {
    this.#hungUpCode ??= exitCode;
    this.#client.hangUp();
  }

  #detach(): void {
    this.#isDetached = true;
    this.#client.hangUp();
  }
}
