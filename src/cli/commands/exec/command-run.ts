/** Runs a command from the first look at its targets to its exit code; `coral exec`, `coral shell` and `coral run` are this. */

import { exitCodeOf } from "../../../base/errors.ts";
import { escapeText } from "../../../base/escape-text.ts";
import { capabilityOf } from "../../../model/runtime-facts.ts";
import type { AgentStatus, RuntimeRefreshed } from "../../../tools/index.ts";
import type { CommandAsk, CommandEnd, RoutedTarget, TerminalShape } from "../../../transport/index.ts";
import { plural } from "../../output/values.ts";
import { askAgent, connectColony, openAgentFrames } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { CommandClient, type CommandEvents, type CommandOutcome, type Routed } from "./command-client.ts";
import { endText, exitCodeOfAll, exitCodeOfSignal, exitCodes } from "./command-exit.ts";
import { type CommandInputSource, pipedInput } from "./command-keyboard.ts";
import { type CommandOutput, jsonLine, jsonOutput, plainOutput, prefixedOutput, targetNames } from "./command-output.ts";
import { localUnsupportedPage, refusedTargets, skippedLines, unsupportedPage } from "./command-targets-page.ts";
import type { WantedCommand } from "./command-words.ts";

export interface RunWantedOptions {
  wanted: WantedCommand;
  terminal?: TerminalShape;
  /** Default: none, its end is sent at once. */
  input?: CommandInputSource;
}

export async function runWanted(invocation: Invocation, options: RunWantedOptions): Promise<void> {
  const { wanted, terminal } = options;
  const ask: CommandAsk = { kind: "command", through: "cli", ...wanted, ...(terminal ? { terminal } : {}) };
  try {
    const frames = await open(invocation, ask);
    const conversation = new Conversation(invocation, ask, new CommandClient(frames));
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
 * Whoever runs it is asked first, which is quick and says everything at once. That no agent is able is for the colony to say all the same: it looks
 * again when the command arrives, and writes down who asked for what.
 */
async function open(invocation: Invocation, ask: CommandAsk) {
  if (ask.targets === undefined) {
    const page = await localProblem(invocation, ask.command);
    if (page !== undefined) throw new UnsupportedHere(page);
    return await openAgentFrames(invocation, "/v1/commands");
  }
  const colony = await connectColony(invocation);
  const { one: _one, ...wish } = ask.targets;
  await colony.call("coral_resolve_targets", { command: ask.command, ...wish });
  return await colony.frames("/v1/commands");
}

/** The agent of this machine cannot; the page says why. */
class UnsupportedHere extends Error {
  readonly page: string;

  constructor(page: string) {
    super("not supported here");
    this.page = page;
  }
}

/** What the agent says of itself, straight from it. */
async function localProblem(invocation: Invocation, command: CommandAsk["command"]): Promise<string | undefined> {
  const { runtime } = await askAgent<RuntimeRefreshed>(invocation, "/v1/runtime");
  const capability = capabilityOf(runtime, command);
  if (capability === undefined || capability.available) return undefined;
  // Where the place allows it, only the agent's own policy does not: it refuses by itself, says why, and writes that down.
  if (!runtime.runtimeType.startsWith("k8s-")) return undefined;
  const { agentId } = await askAgent<AgentStatus>(invocation, "/v1/status");
  return localUnsupportedPage({ command, agentId, runtime, capability }, invocation.print.noteStyle);
}

class Conversation implements CommandEvents {
  readonly #invocation: Invocation;
  readonly #ask: CommandAsk;
  readonly #client: CommandClient;
  #targets: readonly RoutedTarget[] = [];
  #names: readonly string[] = [];
  #output: CommandOutput;
  /** Set when this end has hung up. */
  #hungUpCode: number | undefined;
  #isDetached = false;
  #startInput: (() => void) | undefined;
  #releaseInput: (() => void) | undefined;

  constructor(invocation: Invocation, ask: CommandAsk, client: CommandClient) {
    this.#invocation = invocation;
    this.#ask = ask;
    this.#client = client;
    this.#output = plainOutput(invocation.io);
  }

  /** The exit code. */
  async run(input: CommandInputSource): Promise<number> {
    const { io } = this.#invocation;
    const onAbort = (): void => this.#hangUp(exitCodes.lost);
    io.signal.addEventListener("abort", onAbort, { once: true });
    // What is asked for goes out first.
    const running = this.#client.run(this.#ask, this);
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

  routed(message: Routed): void {
    const { io, print, format } = this.#invocation;
    this.#targets = message.targets;
    this.#names = targetNames(message.targets);
    if (format === "json") {
      this.#output = jsonOutput(io, message.targets);
      io.stdout.write(jsonLine(message));
      return;
    }
    if (message.targets.length > 1) this.#output = prefixedOutput(io, message.targets, { stdout: print.style, stderr: print.noteStyle });
    for (const warning of message.warnings) print.warning(escapeText(warning));
    const isOneOfMany = this.#ask.targets?.one === true;
    for (const line of skippedLines(message.targets, message.skipped, isOneOfMany)) print.warning(escapeText(line));
  }

  message(target: number, message: Parameters<CommandEvents["message"]>[1]): void {
    const { io, print, format } = this.#invocation;
    if (format === "json") {
      const { agentId = "", hostname = "" } = this.#targets[target] ?? {};
      io.stdout.write(jsonLine({ ...message, kind: message.kind === "target-ended" ? "ended" : message.kind, agentId, hostname }));
    }
    if (message.kind === "approval-needed") {
      const until = new Date(message.expiresAtMs).toISOString();
      const text = `${this.#nameOf(target)}rule "${message.rule}" wants an approval, until ${until}: coral approval approve ${message.approvalId}`;
      print.note(escapeText(text));
    }
    if (message.kind === "started") this.#startInput?.();
    if (message.kind === "started" && this.#ask.isDetached) {
      const name = this.#ask.serviceName ?? message.programs[0] ?? "it";
      print.note(escapeText(`${this.#nameOf(target)}${name} runs as pid ${message.pid} and goes on; see coral services`));
      this.#detach();
    }
  }

  async output(target: number, stream: "stdout" | "stderr", data: Buffer): Promise<void> {
    if (this.#hungUpCode === undefined) await this.#output.write(target, stream, data);
  }

  #sumUp(isLost: boolean, ends: readonly (CommandEnd | undefined)[]): number {
    const { print, format, io } = this.#invocation;
    if (this.#isDetached) return 0;
    if (this.#hungUpCode !== undefined) return this.#hungUpCode;
    if (isLost) {
      const problem = "Cannot tell how the command ended: the connection was lost";
      io.stderr.write(`${print.noteStyle("red", "error:")} ${problem}\n`);
      return exitCodes.lost;
    }
    if (format !== "json") this.#tellEnds(ends);
    return exitCodeOfAll(ends);
  }

  /** What went well needs no words; of several, what did not is named. */
  #tellEnds(ends: readonly (CommandEnd | undefined)[]): void {
    const { print, io } = this.#invocation;
    const isOne = ends.length === 1;
    for (const [target, end] of ends.entries()) {
      if (end?.reason === "exited" && (isOne || end.exitCode === 0)) continue;
      const text = `${this.#nameOf(target)}${endText(end)}`;
      if (end?.reason === "signalled" && isOne) continue;
      io.stderr.write(`${print.noteStyle("red", "error:")} ${print.commands(escapeText(text))}\n`);
    }
    const good = ends.filter((end) => end?.reason === "exited" && end.exitCode === 0).length;
    if (!isOne) print.note(print.noteStyle("dim", `${good} of ${plural(ends.length, "agent")} ended with exit 0`));
  }

  #nameOf(target: number): string {
    return this.#targets.length > 1 ? `${this.#names[target]}: ` : "";
  }

  /** The first one goes to the command; a second one ends the connection, and the command with it. */
  #forwardSignals(): () => void {
    const counts = { SIGINT: 0, SIGTERM: 0 };
    const forward = (signal: keyof typeof counts) => (): void => {
      counts[signal]++;
      if (counts[signal] > 1) this.#hangUp(exitCodeOfSignal(signal));
      else this.#client.signal(signal.slice(3));
    };
    const [onInterrupt, onTerminate] = [forward("SIGINT"), forward("SIGTERM")];
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
