/** The server side of CommandService: a colony with many agents, or a single agent. */

import { randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";
import { clone, create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { BoundedChannel } from "../../base/bounded-channel.ts";
import { CoralError } from "../../base/errors.ts";
import {
  CommandCallerSchema,
  type CommandEnded,
  CommandEndedSchema,
  type CommandOrder,
  CommandOrderSchema,
  type CommandRoutedSchema,
  CommandService,
  CommandTargetSchema,
  type ExecuteRequest,
  type ExecuteResponse,
  ExecuteResponseSchema,
} from "../../proto/coral/agent/v1/commands_pb.ts";
import { type Route, type RouteContext, routeContextOf } from "../http/http-routes.ts";
import { checkOrder, checkTerminal, type OrderKind, throughOf } from "./check-order.ts";
import { CommandInput, inputCreditBytes, type TargetInput } from "./command-input.ts";

/** A client must send its order within this time. */
const orderTimeoutMs = 30_000;
/** Events queued for a slow client; above that, its agents wait. */
const maxWaitingEvents = 8;

export type ResponseInit = MessageInitShape<typeof ExecuteResponseSchema>;

/** Resolves when the queue has room, so that a fast agent waits for a slow client; false if the client has disconnected. */
export type SendResponse = (response: ExecuteResponse) => Promise<boolean>;

/** A client's call of CommandService.Execute, with its order read and checked. */
export interface CommandCall {
  order: CommandOrder;
  /** Input that follows the order. */
  rest: AsyncIterator<ExecuteRequest>;
  /** Aborted when the client disconnects. */
  signal: AbortSignal;
  send: SendResponse;
}

/** An invalid order, for the audit. Its fields are unchecked, so only texts are used. */
export interface RefusedOrder {
  commandId: string;
  kind: OrderKind;
  command: string;
  through: "cli" | "http";
  reason: string;
}

export interface CommandServiceOptions {
  serve: (call: CommandCall, context: RouteContext) => Promise<unknown>;
  /** Records an order that violates the protocol's limits, before the client gets its reply. */
  refused: (order: RefusedOrder, context: RouteContext) => Promise<void>;
}

/** The route of CommandService, for colonies and agents. */
export function commandServiceRoute({ serve, refused }: CommandServiceOptions): Route {
  return {
    kind: "rpc",
    permission: "exec",
    register: (router) => {
      router.service(CommandService, {
        execute: (requests, { values, signal }) => {
          const context = routeContextOf({ values });
          return responsesOf(async (send) => {
            const call = await readOrder(requests, signal, send);
            try {
              checkOrder(call.order);
            } catch (error) {
              await refused(refusedOrder(call.order, CoralError.from(error).message), context);
              throw error;
            }
            return serve(call, context);
          });
        },
      });
    },
  };
}

/** The messages that `run` sends, up to its end or error. A client that stops reading does not stop `run`; the call's signal does. */
async function* responsesOf(run: (send: SendResponse) => Promise<unknown>): AsyncGenerator<ExecuteResponse> {
  const channel = new BoundedChannel<ExecuteResponse>(maxWaitingEvents);
  const running = run((response) => channel.put(response)).finally(() => channel.end());
  // Awaited below; it may fail before that.
  running.catch(() => undefined);
  yield* channel;
  await running;
}

async function readOrder(requests: AsyncIterable<ExecuteRequest>, signal: AbortSignal, send: SendResponse): Promise<CommandCall> {
  const rest = requests[Symbol.asyncIterator]();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = new CoralError({ code: "timeout", message: `Cannot run a command: no order within ${orderTimeoutMs} ms` });
    timer = setTimeout(() => reject(error), orderTimeoutMs);
  });
  const first = await Promise.race([rest.next(), late]).finally(() => clearTimeout(timer));
  if (first.done) throw new CoralError({ code: "cancelled", message: "Cannot run a command: the client disconnected before its order" });
  const { message } = first.value;
  if (message.case !== "order")
    throw new CoralError({ code: "invalid", message: "Cannot run a command: the first message is not an order" });
  return { order: message.value, rest, signal, send };
}

/** Recorded arguments of a refused command. */
const maxRecordedArguments = 100;

function refusedOrder(order: CommandOrder, reason: string): RefusedOrder {
  const { kind, text, argv, caller } = order;
  return {
    commandId: randomUUID(),
    kind: kind === "shell" || kind === "run" ? kind : "exec",
    command: text === "" ? argv.slice(0, maxRecordedArguments).join(" ") : text,
    through: caller?.through === "cli" ? "cli" : "http",
    reason,
  };
}

export interface RunCommandOptions {
  routed: MessageInitShape<typeof CommandRoutedSchema> & { targets: readonly unknown[] };
  /** Runs one target's part to its end; must not throw. */
  execute: (index: number, input: TargetInput, signal: AbortSignal) => Promise<CommandEnded>;
}

/** From `routed` to the end of every target. Resolves with how each one ended, also when the client has disconnected. */
export async function runCommand(call: CommandCall, { routed, execute }: RunCommandOptions): Promise<CommandEnded[]> {
  const send = (response: ResponseInit): Promise<boolean> => call.send(create(ExecuteResponseSchema, response));
  const grant = (value: number): Promise<boolean> => send({ event: { case: "inputCreditBytes", value } });
  // Not awaited: the input of a client that does not read must still be consumed.
  const input = new CommandInput(routed.targets.length, (bytes) => void grant(bytes));
  await send({ event: { case: "routed", value: routed } });
  await grant(inputCreditBytes);
  const broken = new AbortController();
  const signal = AbortSignal.any([call.signal, broken.signal]);
  // Every target adds a listener.
  setMaxListeners(0, signal);
  void pumpInput(call.rest, input).catch((error: unknown) => broken.abort(error));
  const ends = await Promise.all(
    input.targets.map(async (own, target) => {
      try {
        const value = await execute(target, own, signal);
        await send({ event: { case: "ended", value }, target });
        return value;
      } finally {
        own.close();
      }
    }),
  );
  if (broken.signal.aborted) throw broken.signal.reason;
  return ends;
}

/** Ends with the client's requests. Throws for an invalid request; a lost connection is reported by the call's signal instead. */
async function pumpInput(rest: AsyncIterator<ExecuteRequest>, input: CommandInput): Promise<void> {
  try {
    for (let next = await rest.next(); !next.done; next = await rest.next()) takeMessage(next.value, input);
    input.end();
  } catch (error) {
    if (error instanceof CoralError) throw error;
    const { code } = ConnectError.from(error);
    if (code === Code.InvalidArgument || code === Code.ResourceExhausted) throw error;
  }
}

/** A message of a client after its order. Throws `invalid` for anything that may not follow an order. */
function takeMessage({ message }: ExecuteRequest, input: CommandInput): void {
  switch (message.case) {
    case "input":
      return input.write(message.value);
    case "inputEnds":
      return input.end();
    case "resize":
      checkTerminal("resize", message.value);
      return input.resize(message.value.columns, message.value.rows);
    case "signal":
      if (/^[A-Z0-9+]{2,12}$/.test(message.value)) return input.signal(message.value);
      break;
    case "order":
    case undefined:
  }
  throw new CoralError({ code: "invalid", message: "Cannot read the input of the command: unknown message" });
}

/** Sends the events of one target to the client; returns its end, undefined when the responses stop without one. */
export async function relayResponses(
  responses: AsyncIterable<ResponseInit>,
  send: SendResponse,
  target: number,
): Promise<CommandEnded | undefined> {
  for await (const init of responses) {
    const response = create(ExecuteResponseSchema, init);
    const { event } = response;
    response.target = target;
    // Other events of an agent are not for the client.
    if (event.case === "started" || event.case === "approvalNeeded") await send(response);
    if (event.case === "output" && !(await send(response))) return undefined;
    if (event.case === "ended") return { ...event.value, reason: endReasonOf(event.value) };
  }
  return undefined;
}

const endReasons = ["exited", "signalled", "timeout", "output-limit", "cancelled", "denied", "failed", "lost"] as const;
type EndReason = (typeof endReasons)[number];

/** An agent of a later version may have more reasons, which count as failed. */
export function endReasonOf({ reason }: Pick<CommandEnded, "reason">): EndReason {
  return endReasons.find((known) => known === reason) ?? "failed";
}

/** The end of a target that did not report one itself. */
export function brokenEnd(reason: EndReason, code: string, problem: string): CommandEnded {
  return create(CommandEndedSchema, { reason, code, problem });
}

export interface LocalCommandOptions {
  agent: { agentId: string; hostname: string };
  /** The same function that serves the tunnel's Execute. */
  execute: (requests: AsyncIterable<ExecuteRequest>, signal: AbortSignal) => AsyncIterable<ResponseInit>;
  refused: (order: RefusedOrder, caller: { name: string; from: string }) => Promise<void>;
}

/** CommandService of an agent, for its own control socket. */
export function localCommandRoute({ agent, execute, refused }: LocalCommandOptions): Route {
  const callerOf = ({ principal, from }: RouteContext) => ({ name: principal?.name ?? "", from });
  const serve = async (call: CommandCall, context: RouteContext): Promise<void> => {
    const { order } = call;
    if (order.targets) {
      const message = "Cannot run a command: an agent runs commands on itself only; send commands with targets to the colony";
      await refused(refusedOrder(order, message), callerOf(context));
      throw new CoralError({ code: "invalid", message });
    }
    const commandId = randomUUID();
    const own = routedOrder(order, commandId, callerOf(context));
    await runCommand(call, {
      routed: { commandId, targets: [agent] },
      execute: async (index, input, signal) => {
        try {
          const end = await relayResponses(execute(input.messages(own), signal), call.send, index);
          return end ?? brokenEnd("cancelled", "cancelled", "");
        } catch (error) {
          const { code, message } = CoralError.from(error);
          return brokenEnd(signal.aborted ? "cancelled" : "failed", code, message);
        }
      },
    });
  };
  return commandServiceRoute({ serve, refused: (order, context) => refused(order, callerOf(context)) });
}

/** A client's order in the form for an agent: with its id and caller, without routing fields. The agent checks it again. */
export function routedOrder(order: CommandOrder, commandId: string, caller: { name: string; from: string }): CommandOrder {
  const own = clone(CommandOrderSchema, order);
  own.commandId = commandId;
  own.target ??= create(CommandTargetSchema, { kind: "host" });
  own.caller = create(CommandCallerSchema, { ...caller, through: throughOf(order) });
  delete own.targets;
  return own;
}
