/** Runs a command at a daemon. Small: Connect is loaded with the first command. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { CommandEnded, CommandOrderSchema, CommandRouted, ExecuteResponse } from "../../proto/coral/agent/v1/commands_pb.ts";
import type { ControlTarget } from "../http/control-client.ts";

/** A client's order; see CommandOrder in commands.proto for what the daemon sets. */
export type CommandOrderInit = Exclude<MessageInitShape<typeof CommandOrderSchema>, { $typeName: string }>;
export type CommandEvent = Extract<ExecuteResponse["event"], { case: "started" | "approvalNeeded" | "ended" }>;

/** Receives all events in order; a promise from `output` pauses the daemon. `target` is an index into the targets of `routed`. */
export interface CommandEvents {
  routed(routed: CommandRouted): void;
  event(target: number, event: CommandEvent): void;
  output(target: number, stream: "stdout" | "stderr", data: Buffer): void | Promise<void>;
}

/** `lost`: the connection broke before the last end arrived. */
export interface CommandOutcome {
  kind: "ended" | "lost";
  ends: (CommandEnded | undefined)[];
}

/** One command on an open connection. */
export interface CommandClient {
  /** Runs to the end of all targets, then closes the connection. Throws the daemon's error. May be called once. */
  run(order: CommandOrderInit, events: CommandEvents): Promise<CommandOutcome>;
  /** Sends all of `source` as input, as fast as the command reads it, then its end. */
  sendInput(source: AsyncIterable<Uint8Array | string>): Promise<void>;
  /** False after the command has ended. */
  write(data: Uint8Array): Promise<boolean>;
  endInput(): void;
  /** Signals by name: INT, TERM. */
  signal(signal: string): void;
  resize(columns: number, rows: number): void;
  /** Disconnects, which also ends the command unless it is detached. */
  hangUp(): void;
}

export interface OpenCommandOptions {
  target: ControlTarget;
  /** Timeout for connecting. Default 30 s. */
  timeoutMs?: number;
  /** Ends connecting only. */
  signal?: AbortSignal;
}

/** Connects to a daemon. Throws `unavailable` with `details.reason` "not-running" when there is none, as requestJson does. */
export async function openCommand(options: OpenCommandOptions): Promise<CommandClient> {
  const { connectCommand } = await import("./command-client.ts");
  return await connectCommand(options);
}
