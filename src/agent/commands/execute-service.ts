/** Runs commands for the colony and the local socket. Loads `src/exec` with the first command. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { background } from "../../base/background.ts";
import { BoundedChannel } from "../../base/bounded-channel.ts";
import { CoralError } from "../../base/errors.ts";
import type { FlowLoad } from "../../base/flow-load.ts";
import type { CommandEnd, CommandOrder, CommandRunner, CommandRunnerOptions, HeldCommand, StartedCommand } from "../../exec/index.ts";
import type { ExecuteRequest, ExecuteResponseSchema, CommandOrder as WireOrder } from "../../proto/coral/agent/v1/commands_pb.ts";

type Response = MessageInitShape<typeof ExecuteResponseSchema>;

/** The same service for the tunnel and the control socket. Disposing it ends all commands. */
export interface ExecuteService extends AsyncDisposable {
  /** Streams until the command ends. Aborting the signal kills it unless it is detached. Never throws: a failure is the last message. */
  execute(requests: AsyncIterable<ExecuteRequest>, signal: AbortSignal): AsyncGenerator<Response>;
  /** Throws `not-found` when the command is not waiting for approval. */
  decideApproval(decision: { approvalId: string; isApproved: boolean; decidedBy: string; reason: string }): Promise<void>;
  readRecording(name: string): AsyncGenerator<{ data: Uint8Array }>;
  /** Commands that are running or waiting for approval. */
  readonly running: number;
}

/** Buffered events, output aside. */
const maxWaiting = 8;

export interface ExecuteServiceOptions extends CommandRunnerOptions {
  /** Counts bytes of output; absent: not counted. */
  load?: FlowLoad;
  /** The name of a service, which policies and messages use, for the id that colonies send. Default: the id. */
  nameOf?: (service: string) => string;
}

/** Creates the runner with the first command, so that an agent without commands does not load `src/exec`. */
export function createExecuteService(options: ExecuteServiceOptions): ExecuteService {
  let loaded: Promise<CommandRunner> | undefined;
  let current: CommandRunner | undefined;
  let active = 0;
  const runner = (): Promise<CommandRunner> => {
    loaded ??= import("../../exec/index.ts").then(({ CommandRunner: Runner }) => {
      current = new Runner(options);
      return current;
    });
    return loaded;
  };
  return {
    execute: async function* (requests, signal) {
      active++;
      const flow = options.load?.begin();
      try {
        for await (const response of runOne(await runner(), requests, signal, options)) {
          if (response.event?.case === "output") flow?.add(response.event.value.data?.length ?? 0);
          yield response;
        }
      } finally {
        active--;
        flow?.end();
      }
    },
    decideApproval: async ({ approvalId, ...decision }) => (await runner()).decide(approvalId, decision),
    readRecording: async function* (name) {
      for await (const data of (await runner()).readRecording(name)) yield { data };
    },
    get running() {
      return Math.max(active, current?.running ?? 0);
    },
    [Symbol.asyncDispose]: async () => {
      await (await loaded)?.[Symbol.asyncDispose]();
    },
  };
}

/** One command as a stream of messages; output is passed on as it arrives, with backpressure from the caller. */
async function* runOne(
  runner: CommandRunner,
  requests: AsyncIterable<ExecuteRequest>,
  signal: AbortSignal,
  { log, nameOf = (service) => service }: Pick<ExecuteServiceOptions, "log" | "nameOf">,
): AsyncGenerator<Response> {
  const messages = requests[Symbol.asyncIterator]();
  // The caller may stop reading, or the stream may break: both end the command.
  const abandoned = new AbortController();
  const both = AbortSignal.any([signal, abandoned.signal]);
  try {
    const order = await readOrder(messages, nameOf);
    const held = new BoundedChannel<HeldCommand>(maxWaiting);
    const starting = runner.start(order, both, (command) => held.offer(command)).finally(() => held.end());
    // Awaited below; until then, approvals that it waits for are reported.
    starting.catch(() => undefined);
    for await (const { approvalId, rule, expiresAtMs } of held)
      yield { event: { case: "approvalNeeded", value: { approvalId, rule, expiresAtMs: BigInt(expiresAtMs) } } };
    const started = await starting;
    background(log, "Reading the input of a command", pumpInput(messages, started));
    yield startedMessage(started);
    for await (const { stream, data } of started.running.output()) yield { event: { case: "output", value: { stream, data } } };
    // A detached command keeps running; there is no reader left for its end.
    if (both.aborted && order.isDetached) return;
    // The audit entry is written concurrently; if the agent is killed before that, its next start records the command as lost.
    yield endedMessage(started, await started.running.ended);
  } catch (error) {
    yield failedMessage(CoralError.from(error));
  } finally {
    abandoned.abort();
  }
}

async function readOrder(messages: AsyncIterator<ExecuteRequest>, nameOf: (service: string) => string): Promise<CommandOrder> {
  const first = await messages.next();
  if (first.done || first.value.message.case !== "order")
    throw new CoralError({ code: "invalid", message: "Cannot run a command: the first message of the stream is not an order" });
  return orderOf(first.value.message.value, nameOf);
}

/** Ends with the stream. When the stream breaks, the caller's signal ends the command. */
async function pumpInput(messages: AsyncIterator<ExecuteRequest>, { running }: StartedCommand): Promise<void> {
  try {
    for (;;) {
      const { done, value } = await messages.next();
      if (done) return;
      const { message } = value;
      if (message.case === "input") await running.write(message.value);
      else if (message.case === "inputEnds") running.endInput();
      else if (message.case === "resize") running.resize(message.value.columns, message.value.rows);
      else if (message.case === "signal") running.signal(message.value);
    }
  } catch {
    // The stream broke: no more input can arrive.
    running.endInput();
  }
}

/** From the wire, where every field has a default. The runner checks the values. */
function orderOf(order: WireOrder, nameOf: (service: string) => string): CommandOrder {
  const { target, terminal, caller } = order;
  const through = caller?.through;
  return {
    commandId: order.commandId,
    kind: order.kind === "shell" || order.kind === "run" ? order.kind : "exec",
    argv: order.argv,
    text: order.text,
    target: {
      kind: target?.kind === "service" || target?.kind === "container" ? target.kind : "host",
      service: nameOf(target?.service ?? ""),
      container: target?.container ?? "",
      pid: target?.pid ?? 0,
    },
    workingDirectory: order.workingDirectory,
    environment: order.environment,
    timeoutMs: Number(order.timeoutMs),
    maxOutputBytes: Number(order.maxOutputBytes),
    terminal: terminal ? { columns: terminal.columns, rows: terminal.rows, type: terminal.type } : undefined,
    caller: {
      name: caller?.name ?? "",
      from: caller?.from ?? "",
      through: through === "mcp" || through === "http" || through === "llm" ? through : "cli",
      questionId: caller?.questionId ?? "",
    },
    serviceName: order.serviceName,
    isDetached: order.isDetached,
    isReadOnly: order.readOnly,
  };
}

function startedMessage(started: StartedCommand): Response {
  const { running, programs, where, rule, user, timeoutMs, maxOutputBytes } = started;
  return {
    event: {
      case: "started",
      value: {
        pid: running.pid,
        programs: [...programs],
        where,
        rule,
        user,
        timeoutMs: BigInt(timeoutMs),
        maxOutputBytes: BigInt(maxOutputBytes),
      },
    },
  };
}

function endedMessage({ rule, recording }: StartedCommand, end: CommandEnd): Response {
  const { reason, exitCode, signal, problem } = end;
  return {
    event: {
      case: "ended",
      value: {
        reason,
        exitCode,
        signal,
        problem,
        code: reason === "failed" ? "unavailable" : "",
        rule,
        stdoutBytes: BigInt(end.stdoutBytes),
        stderrBytes: BigInt(end.stderrBytes),
        durationMs: BigInt(end.durationMs),
        recording,
      },
    },
  };
}

function failedMessage({ code, message, details }: CoralError): Response {
  const rule = typeof details["rule"] === "string" ? details["rule"] : "";
  return {
    event: {
      case: "ended",
      value: { reason: code === "not-permitted" ? "denied" : "failed", exitCode: 126, problem: message, code, rule },
    },
  };
}
