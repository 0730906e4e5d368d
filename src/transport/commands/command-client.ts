/** The client's end of CommandService, over a separate HTTP/2 connection. */

import { once } from "node:events";
import type { ClientHttp2Session } from "node:http2";
import { connect, type Socket } from "node:net";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type Client, createClient } from "@connectrpc/connect";
import { CoralError } from "../../base/errors.ts";
import {
  type CommandEnded,
  CommandService,
  type ExecuteRequest,
  ExecuteRequestSchema,
  type ExecuteResponse,
} from "../../proto/coral/agent/v1/commands_pb.ts";
import { type ControlTarget, cancelled, connectionError, nameOfTarget, timedOut } from "../http/control-client.ts";
import { fromConnectError, reviveConnectError } from "../http/rpc-errors.ts";
import { dialTls } from "../trust/dial-tls.ts";
import { createClientSession, createSessionTransport } from "../tunnel/session-transport.ts";
import type { CommandClient, CommandEvents, CommandOrderInit, CommandOutcome, OpenCommandOptions } from "./open-command.ts";

/** Of one message. Output arrives in much smaller ones. */
const maxReplyBytes = 64 * 1024 * 1024;

/** Throws a CoralError that names the target and the reason. */
export async function connectCommand(options: OpenCommandOptions): Promise<CommandClient> {
  return new CommandCall(await connectCommandService(options));
}

/** `headers` must be sent with each call: they authenticate the caller. */
export interface CommandConnection {
  client: Client<typeof CommandService>;
  headers: Record<string, string>;
  session: ClientHttp2Session;
}

/** The caller destroys the session. */
export async function connectCommandService({ target, timeoutMs = 30_000, signal }: OpenCommandOptions): Promise<CommandConnection> {
  const deadline = AbortSignal.timeout(timeoutMs);
  const both = signal ? AbortSignal.any([signal, deadline]) : deadline;
  const explain = (error: unknown, otherwise: () => CoralError): CoralError => {
    if (signal?.aborted) return cancelled(target, signal);
    return deadline.aborted ? timedOut(target, timeoutMs, error) : otherwise();
  };
  const socket = await openSocket(target, timeoutMs, both).catch((error: unknown) => {
    throw explain(error, () => connectionError(target, error));
  });
  const session = createClientSession(socket);
  const closed = new AbortController();
  // A lost connection ends the call, which reports it.
  session.on("error", () => undefined).once("close", () => closed.abort());
  try {
    // Fails for a daemon without HTTP/2.
    await once(session, "remoteSettings", { signal: AbortSignal.any([both, closed.signal]) });
  } catch (error) {
    session.destroy();
    socket.destroy();
    throw explain(error, () => noHttp2(target, error));
  }
  const transport = createSessionTransport(session, { maxReplyBytes, closedReason: () => "the connection was lost" });
  const headers: Record<string, string> = target.kind === "https" ? { authorization: `Bearer ${target.token}` } : {};
  return { client: createClient(CommandService, transport), headers, session };
}

/** A unix socket needs no TLS: the daemon checks the uid of its peer. */
async function openSocket(target: ControlTarget, timeoutMs: number, signal: AbortSignal): Promise<Socket> {
  if (target.kind === "https") {
    const { endpoint, caFingerprint, colonyId } = target;
    const socket = await dialTls({ endpoint, trust: { kind: "fingerprint", caFingerprint, colonyId }, alpn: "h2", timeoutMs, signal });
    return socket.setNoDelay(true);
  }
  const socket = connect(target.path);
  try {
    await once(socket, "connect", { signal });
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

function noHttp2(target: ControlTarget, cause: unknown): CoralError {
  return new CoralError({
    code: "unsupported",
    message: `Cannot run commands at ${nameOfTarget(target)}: it does not support them over HTTP/2; restart it with this version of Coral`,
    cause,
  });
}

/** Input is sent within the credit that the daemon grants, so that a command that does not read stops the sender. */
class CommandCall implements CommandClient {
  readonly #connection: CommandConnection;
  readonly #requests: ExecuteRequest[] = [];
  #creditBytes = 0;
  #hasEnded = false;
  #wakeSender: (() => void) | undefined;
  #wakeWriter: (() => void) | undefined;

  constructor(connection: CommandConnection) {
    this.#connection = connection;
  }

  async run(order: CommandOrderInit, events: CommandEvents): Promise<CommandOutcome> {
    const { client, headers, session } = this.#connection;
    const ends: (CommandEnded | undefined)[] = [];
    let isRouted = false;
    try {
      this.#requests.unshift(create(ExecuteRequestSchema, { message: { case: "order", value: order } }));
      for await (const response of client.execute(this.#messages(), { headers })) {
        if (response.event.case === "routed") {
          isRouted = true;
          ends.length = response.event.value.targets.length;
        }
        if (response.event.case === "ended") ends[response.target] = response.event.value;
        await this.#take(response, events);
      }
      return { kind: "ended", ends };
    } catch (error) {
      const refusal = reviveConnectError(error);
      if (refusal) throw refusal;
      if (!isRouted && !this.#hasEnded) throw fromConnectError(error);
      return { kind: "lost", ends };
    } finally {
      this.#finish();
      session.destroy();
    }
  }

  async sendInput(source: AsyncIterable<Uint8Array | string>): Promise<void> {
    for await (const chunk of source) if (!(await this.write(typeof chunk === "string" ? Buffer.from(chunk) : chunk))) return;
    this.endInput();
  }

  async write(data: Uint8Array): Promise<boolean> {
    let rest = data;
    while (rest.length > 0) {
      while (this.#creditBytes === 0 && !this.#hasEnded) {
        await new Promise<void>((resolve) => {
          this.#wakeWriter = resolve;
        });
      }
      if (this.#hasEnded) return false;
      const value = rest.subarray(0, this.#creditBytes);
      this.#creditBytes -= value.length;
      rest = rest.subarray(value.length);
      this.#send({ case: "input", value });
    }
    return true;
  }

  endInput(): void {
    this.#send({ case: "inputEnds", value: true });
  }

  signal(signal: string): void {
    this.#send({ case: "signal", value: signal });
  }

  resize(columns: number, rows: number): void {
    this.#send({ case: "resize", value: { columns, rows } });
  }

  hangUp(): void {
    this.#finish();
    this.#connection.session.destroy();
  }

  #take({ event, target }: ExecuteResponse, events: CommandEvents): void | Promise<void> {
    switch (event.case) {
      case "routed":
        return events.routed(event.value);
      case "inputCreditBytes":
        this.#creditBytes += event.value;
        this.#wakeWriter?.();
        return;
      case "output": {
        const { buffer, byteOffset, length } = event.value.data;
        const stream = event.value.stream === "stderr" ? "stderr" : "stdout";
        return events.output(target, stream, Buffer.from(buffer, byteOffset, length));
      }
      case "started":
      case "approvalNeeded":
      case "ended":
        return events.event(target, event);
      case undefined:
        // An event of a later version.
        return;
    }
  }

  #send(message: NonNullable<MessageInitShape<typeof ExecuteRequestSchema>["message"]>): void {
    this.#requests.push(create(ExecuteRequestSchema, { message }));
    this.#wakeSender?.();
  }

  /** The queue is bounded by the credit for input, and by typing speed. */
  async *#messages(): AsyncGenerator<ExecuteRequest> {
    while (!this.#hasEnded) {
      const request = this.#requests.shift();
      if (request) {
        yield request;
        continue;
      }
      await new Promise<void>((resolve) => {
        this.#wakeSender = resolve;
      });
    }
  }

  #finish(): void {
    this.#hasEnded = true;
    this.#wakeWriter?.();
    this.#wakeSender?.();
  }
}
