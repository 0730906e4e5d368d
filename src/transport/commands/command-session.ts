/** The daemon's end of a command on frames: the colony's with many agents behind it, an agent's own with itself. */

import { randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { CoralError } from "../../base/errors.ts";
import {
  type CommandCallerSchema,
  type CommandEnded,
  type CommandOrder,
  CommandOrderSchema,
  type ExecuteRequest,
  type ExecuteResponse,
  ExecuteResponseSchema,
} from "../../proto/coral/agent/v1/commands_pb.ts";
import { CommandInput, type TargetInput } from "./command-input.ts";
import {
  type CommandAsk,
  type CommandEnd,
  type CommandPlace,
  type DaemonMessage,
  inputCreditBytes,
  type RoutedTarget,
  type SkippedTarget,
} from "./command-messages.ts";
import type { Frame, FrameStream } from "./frame-stream.ts";
import { readCommandAsk, terminalOf } from "./read-command-ask.ts";

/** A client that has connected says what it wants within this time. */
const askTimeoutMs = 30_000;

/** A command as its client asked for it; `frames` continue with its input. */
export interface AskedCommand {
  ask: CommandAsk;
  frames: FrameStream;
  rest: AsyncIterator<Frame>;
}

export async function readCommand(frames: FrameStream): Promise<AskedCommand> {
  const rest = frames[Symbol.asyncIterator]();
  const timer = setTimeout(() => frames.destroy(), askTimeoutMs);
  const first = await rest.next();
  clearTimeout(timer);
  if (first.done) throw new CoralError({ code: "cancelled", message: "Cannot run a command: the caller hung up before it said which" });
  if (first.value.kind !== "control")
    throw new CoralError({ code: "invalid", message: "Cannot run a command: the first frame is not JSON" });
  return { ask: readCommandAsk(first.value.value), frames, rest };
}

export interface RunCommandOptions {
  commandId: string;
  targets: RoutedTarget[];
  skipped?: SkippedTarget[];
  warnings?: string[];
  /** One target's part, up to its end; must not throw. */
  execute: (index: number, input: TargetInput, signal: AbortSignal) => Promise<CommandEnd>;
}

/** From `routed` to `ended`. Resolves with what became of each target, also when the client has left. */
export async function runCommand(asked: AskedCommand, options: RunCommandOptions): Promise<CommandEnd[]> {
  const { frames } = asked;
  const { commandId, targets, skipped = [], warnings = [], execute } = options;
  const send = (message: DaemonMessage, target = 0): Promise<boolean> => frames.send({ kind: "control", target, value: message });
  // Not awaited: the input must be read on while the client takes it.
  const input = new CommandInput(targets.length, (bytes) => void send({ kind: "credit", bytes }));
  await send({ kind: "routed", commandId, targets, skipped, warnings });
  await send({ kind: "credit", bytes: inputCreditBytes });
  const broken = new AbortController();
  const signal = AbortSignal.any([frames.signal, broken.signal]);
  // Every target listens to it.
  setMaxListeners(0, signal);
  const pumped = pumpInput(asked.rest, input).catch((error: unknown) => broken.abort(error));
  const ends = await Promise.all(
    input.targets.map(async (own, index) => {
      try {
        const end = await execute(index, own, signal);
        await send(end, index);
        return end;
      } finally {
        own.close();
      }
    }),
  );
  if (broken.signal.aborted) throw broken.signal.reason;
  await send({ kind: "ended" });
  await frames.close();
  await pumped;
  return ends;
}

async function pumpInput(rest: AsyncIterator<Frame>, input: CommandInput): Promise<void> {
  for (;;) {
    const { done, value: frame } = await rest.next();
    if (done) return;
    if (frame.kind === "data") input.write(frame.data);
    else if (frame.kind === "control") takeMessage(frame.value, input);
  }
}

function takeMessage(value: unknown, input: CommandInput): void {
  const message = (typeof value === "object" && value !== null ? value : {}) as { kind?: unknown; signal?: unknown };
  if (message.kind === "input-ends") return input.end();
  if (message.kind === "resize") {
    const { columns, rows } = terminalOf(value, "resize");
    return input.resize(columns, rows);
  }
  if (message.kind === "signal" && typeof message.signal === "string" && /^[A-Z0-9+]{2,12}$/.test(message.signal))
    return input.signal(message.signal);
  throw new CoralError({ code: "invalid", message: "Cannot read a frame: it is none that a command takes" });
}

/** What the agent is told; it checks everything once more. */
export function commandOrder(
  ask: CommandAsk,
  commandId: string,
  where: CommandPlace,
  caller: MessageInitShape<typeof CommandCallerSchema>,
): CommandOrder {
  const { kind, service = "", container = "", pid = 0 } = where;
  return create(CommandOrderSchema, {
    commandId,
    kind: ask.command,
    argv: ask.argv ?? [],
    text: ask.text ?? "",
    target: { kind, service, container, pid },
    workingDirectory: ask.workingDirectory ?? "",
    environment: ask.environment ?? {},
    timeoutMs: BigInt(ask.timeoutMs ?? 0),
    maxOutputBytes: BigInt(ask.maxOutputBytes ?? 0),
    ...(ask.terminal ? { terminal: { type: "", ...ask.terminal } } : {}),
    caller,
    serviceName: ask.serviceName ?? "",
    isDetached: ask.isDetached ?? false,
    readOnly: ask.readOnly ?? false,
  });
}

type Response = ExecuteResponse | MessageInitShape<typeof ExecuteResponseSchema>;

/** Sends what an agent answers on as frames; returns its end, undefined when it stopped without one. */
export async function relayResponses(
  responses: AsyncIterable<Response>,
  frames: Pick<FrameStream, "send">,
  target: number,
): Promise<CommandEnd | undefined> {
  for await (const response of responses) {
    const { event } = create(ExecuteResponseSchema, response);
    if (event.case === "output") {
      const { stream, data } = event.value;
      if (!(await frames.send({ kind: stream === "stderr" ? "error" : "data", target, data }))) return undefined;
    } else if (event.case === "started") {
      const { pid, programs, where, rule, user, timeoutMs, maxOutputBytes } = event.value;
      const value = { pid, programs, where, rule, user, timeoutMs: Number(timeoutMs), maxOutputBytes: Number(maxOutputBytes) };
      await frames.send({ kind: "control", target, value: { kind: "started", ...value } satisfies DaemonMessage });
    } else if (event.case === "approvalNeeded") {
      const { approvalId, rule, expiresAtMs } = event.value;
      const value: DaemonMessage = { kind: "approval-needed", approvalId, rule, expiresAtMs: Number(expiresAtMs) };
      await frames.send({ kind: "control", target, value });
    } else if (event.case === "ended") {
      return endOf(event.value);
    }
  }
  return undefined;
}

const endReasons: readonly CommandEnd["reason"][] = [
  "exited",
  "signalled",
  "timeout",
  "output-limit",
  "cancelled",
  "denied",
  "failed",
  "lost",
];

function endOf(ended: CommandEnded): CommandEnd {
  const { exitCode, signal, problem, code, rule, recording } = ended;
  return {
    kind: "target-ended",
    // An agent of a later version may know more reasons.
    reason: endReasons.find((reason) => reason === ended.reason) ?? "failed",
    exitCode,
    signal,
    problem,
    code,
    rule,
    stdoutBytes: Number(ended.stdoutBytes),
    stderrBytes: Number(ended.stderrBytes),
    durationMs: Number(ended.durationMs),
    recording,
  };
}

/** An end that the agent did not tell. */
export function brokenEnd(reason: CommandEnd["reason"], code: string, problem: string): CommandEnd {
  return {
    kind: "target-ended",
    reason,
    exitCode: 0,
    signal: "",
    problem,
    code,
    rule: "",
    stdoutBytes: 0,
    stderrBytes: 0,
    durationMs: 0,
    recording: "",
  };
}

export interface LocalCommandOptions {
  agent: RoutedTarget;
  /** As the control socket knows it; `through` is the client's word. */
  caller: { name: string; from: string };
  /** The same that the tunnel's Execute is answered with. */
  execute: (requests: AsyncIterable<ExecuteRequest>, signal: AbortSignal) => AsyncIterable<Response>;
  /** Before anything is run; throws what the caller should read. */
  check?: (ask: CommandAsk) => void | Promise<void>;
}

/** Serves one command on an agent's own socket: the handler of its route `POST /v1/commands`. */
export async function serveLocalCommand(frames: FrameStream, options: LocalCommandOptions): Promise<void> {
  const asked = await readCommand(frames);
  const { ask } = asked;
  if (ask.targets !== undefined)
    throw new CoralError({ code: "invalid", message: "Cannot run a command: an agent runs it on itself only; ask the colony for targets" });
  await options.check?.(ask);
  const commandId = randomUUID();
  const caller = { ...options.caller, through: ask.through ?? "http" };
  const order = commandOrder(ask, commandId, ask.where ?? { kind: "host" }, caller);
  await runCommand(asked, {
    commandId,
    targets: [options.agent],
    execute: async (index, input, signal) => {
      try {
        const end = await relayResponses(options.execute(input.messages(order), signal), frames, index);
        return end ?? brokenEnd("cancelled", "cancelled", "");
      } catch (error) {
        const { code, message } = CoralError.from(error);
        return brokenEnd(signal.aborted ? "cancelled" : "failed", code, message);
      }
    },
  });
}
