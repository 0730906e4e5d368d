/** Forwards a client's input to one or several agents. Credits bound the queue, so that the client's messages are always read. */

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { CoralError } from "../../base/errors.ts";
import { type CommandOrder, type ExecuteRequest, ExecuteRequestSchema } from "../../proto/coral/agent/v1/commands_pb.ts";

/** Bytes that a client may send before every agent has consumed them. */
export const inputCreditBytes = 256 * 1024;

/** Bytes that several agents share; their credit is granted again when all have consumed them. */
interface Part {
  sizeBytes: number;
  waiting: number;
}

interface Item {
  request: ExecuteRequest;
  part?: Part;
}

/** Queued signals and sizes per agent; more are dropped, because the agent does not read them. */
const maxWaitingMessages = 100;

/** One agent's queue: the messages that follow its order. */
class InputQueue {
  readonly #items: Item[] = [];
  readonly #onTaken: (part: Part) => void;
  #isClosed = false;
  #wake: (() => void) | undefined;

  constructor(onTaken: (part: Part) => void) {
    this.#onTaken = onTaken;
  }

  push(item: Item): void {
    if (this.#isClosed || (!item.part && item.request.message.case !== "inputEnds" && this.#items.length >= maxWaitingMessages)) {
      if (item.part) this.#onTaken(item.part);
      return;
    }
    // Only the last of several sizes counts.
    const last = this.#items.at(-1);
    if (item.request.message.case === "resize" && last?.request.message.case === "resize") this.#items.pop();
    this.#items.push(item);
    this.#wake?.();
  }

  close(): void {
    this.#isClosed = true;
    for (const { part } of this.#items.splice(0)) if (part) this.#onTaken(part);
    this.#wake?.();
  }

  async *messages(order: CommandOrder): AsyncGenerator<ExecuteRequest> {
    yield create(ExecuteRequestSchema, { message: { case: "order", value: order } });
    while (!this.#isClosed) {
      const item = this.#items.shift();
      if (item === undefined) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        continue;
      }
      yield item.request;
      // The transport requests the next message, so it has sent this one.
      if (item.part) this.#onTaken(item.part);
    }
  }
}

/** The messages for one agent. `close` it when the agent has ended. */
export interface TargetInput {
  messages(order: CommandOrder): AsyncIterable<ExecuteRequest>;
  close(): void;
}

/** Sends the same input to every agent. */
export class CommandInput {
  readonly targets: TargetInput[];
  readonly #queues: InputQueue[];
  readonly #grant: (bytes: number) => void;
  #outstandingBytes = 0;
  #hasEnded = false;

  /** `grant` allows the client to send that many more bytes. */
  constructor(count: number, grant: (bytes: number) => void) {
    this.#grant = grant;
    this.#queues = Array.from({ length: count }, () => new InputQueue((part) => this.#taken(part)));
    this.targets = this.#queues;
  }

  /** Throws `exhausted` if the client exceeds its credit, which a correct client never does. */
  write(data: Uint8Array): void {
    if (data.length === 0 || this.#hasEnded) return;
    this.#outstandingBytes += data.length;
    if (this.#outstandingBytes > inputCreditBytes) {
      throw new CoralError({
        code: "exhausted",
        message: `Cannot accept input: the client sent more than its credit of ${inputCreditBytes} bytes`,
      });
    }
    this.#send({ case: "input", value: data }, { sizeBytes: data.length, waiting: this.#queues.length });
  }

  /** Closes the command's input. Later writes are dropped. */
  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#send({ case: "inputEnds", value: true });
  }

  resize(columns: number, rows: number): void {
    this.#send({ case: "resize", value: { columns, rows } });
  }

  signal(name: string): void {
    this.#send({ case: "signal", value: name });
  }

  #send(message: NonNullable<MessageInitShape<typeof ExecuteRequestSchema>["message"]>, part?: Part): void {
    const request = create(ExecuteRequestSchema, { message });
    for (const queue of this.#queues) queue.push(part ? { request, part } : { request });
  }

  #taken(part: Part): void {
    part.waiting--;
    if (part.waiting > 0) return;
    this.#outstandingBytes -= part.sizeBytes;
    this.#grant(part.sizeBytes);
  }
}
