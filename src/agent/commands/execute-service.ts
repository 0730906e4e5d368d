/** Commands that the colony or the local socket asks for. The room that runs them is loaded with the first one. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { background } from "../../base/background.ts";
import { BoundedChannel } from "../../base/bounded-channel.ts";
import { CoralError } from "../../base/errors.ts";
import type { FlowLoad } from "../../base/flow-load.ts";
import type { Logger } from "../../base/log.ts";
import type { CommandEnd, CommandOrder, CommandRunner, CommandRunnerOptions, HeldCommand, StartedCommand } from "../../exec/index.ts";
import type { ExecuteRequest, ExecuteResponseSchema, CommandOrder as WireOrder } from "../../proto/coral/agent/v1/commands_pb.ts";

type Response = MessageInitShape<typeof ExecuteResponseSchema>;

export interface ExecuteService extends AsyncDisposable {
  /** Until the command ends; aborting the signal ends it, unless it is detached. Never throws: a failure is the last message. */
  execute(requests: AsyncIterable<ExecuteRequest>, signal: AbortSignal): AsyncGenerator<Response>;
  /** Throws `not-found` when the command does not wait. */
  decideApproval(decision: { approvalId: string; isApproved: boolean; decidedBy: string; reason: string }): Promise<void>;
  readRecording(name: string): AsyncGenerator<{ data: Uint8Array }>;
  /** Commands that run or wait now. */
  readonly running: number;
}

/** Events beside output that wait for the reader. */
const maxWaiting = 8;

export interface ExecuteServiceOptions extends CommandRunnerOptions {
  /** Absent: nobody wants to know how much is written. */
  load?: FlowLoad;
}

export function createExecuteService(options: ExecuteServiceOptions): ExecuteService {
  let loaded: Promise<CommandRunner> | undefined;
  let current: CommandRunner | undefined;
  let begun = 0;
  const runner = (): Promise<CommandRunner> => {
    loaded ??= import("../../exec/index.ts").then(({ CommandRunner: Runner }) => {
      current = new Runner(options);
      return current;
    });
    return loaded;
  };
  return {
    execute: async function* (requests, signal) {
      begun++;
      const flow = options.load?.begin();
      try {
        for await (const response of runOne(await runner(), requests, signal, options.log)) {
          if (response.event?.case === "output") flow?.add(response.event.value.data?.length ?? 0);
          yield response;
        }
      } finally {
        begun--;
        flow?.end();
      }
    },
    decideApproval: async ({ approvalId, ...decision }) => (await runner()).decide(approvalId, decision),
    readRecording: async function* (name) {
      for await (const data of (await runner()).readRecording(name)) yield { data };
    },
    get running() {
      return Math.max(begun, current?.running ?? 0);
    },
    [Symbol.asyncDispose]: async () => {
      await (await loaded)?.[Symbol.asyncDispose]();
    },
  };
}

async function* runOne(
  runner: CommandRunner,
  requests: AsyncIterable<ExecuteRequest>,
  signal: AbortSignal,
  log: Logger,
): AsyncGenerator<Response> {
  const messages = requests[Symbol.asyncIterator]();
  // Nobody may read on, or the stream may break without a word: both end what was asked for.
  const left = new AbortController();
  const both = AbortSignal.any([signal, left.signal]);
  try {
    const order = await readOrder(messages);
    const held = new BoundedChannel<HeldCommand>(maxWaiting);
    const starting = runner.start(order, both, (news) => held.offer(news)).finally(() => held.end());
    // Its failure is handled below; until then a hold may be reported.
    starting.catch(() => undefined);
    for await (const { approvalId, rule, expiresAtMs } of held)
      yield { event: { case: "approvalNeeded", value: { approvalId, rule, expiresAtMs: BigInt(expiresAtMs) } } };
    const started = await starting;
    background(log, "Input of a command", pumpInput(messages, started));
    yield startedMessage(started);
    for await (const { stream, data } of started.running.output()) yield { event: { case: "output", value: { stream, data } } };
    // A detached program runs on; nobody is left to hear of its end.
    if (both.aborted && order.isDetached) return;
    // Its audit is written meanwhile; should the agent be killed before, the next start writes that the end is not known.
    yield endedMessage(started, await started.running.ended);
  } catch (error) {
    yield failedMessage(CoralError.from(error));
  } finally {
    left.abort();
  }
}

async function readOrder(messages: AsyncIterator<ExecuteRequest>): Promise<CommandOrder> {
  const first = await messages.next();
  if (first.done || first.value.message.case !== "order")
    throw new CoralError({ code: "invalid", message: "Cannot run a command: the first message is not its order" });
  return orderOf(first.value.message.value);
}

/** Ends with the stream. One that breaks is the caller's to notice: it ends the command by the signal. */
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
    // The stream was cut; nothing more can come.
    running.endInput();
  }
}

function orderOf(order: WireOrder): CommandOrder {
  const { target, terminal, caller } = order;
  const through = caller?.through;
  return {
    commandId: order.commandId,
    kind: order.kind === "shell" || order.kind === "run" ? order.kind : "exec",
    argv: order.argv,
    text: order.text,
    target: {
      kind: target?.kind === "service" || target?.kind === "container" ? target.kind : "host",
      service: target?.service ?? "",
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
