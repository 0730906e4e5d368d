/** Input of a client on its way to one or several agents, bounded by credits so that reading never has to stop. */

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { CoralError } from "../../base/errors.ts";
import { type CommandOrder, type ExecuteRequest, ExecuteRequestSchema } from "../../proto/coral/agent/v1/commands_pb.ts";
import { inputCreditBytes } from "./command-messages.ts";

/** Bytes that several agents share; worth its credit again when all have taken it. */
interface Part {
  sizeBytes: number;
  waiting: number;
}

interface Item {
  request: ExecuteRequest;
  part?: Part;
}

/** Signals and sizes that wait for one agent; more are dropped, since the agent does not listen. */
const maxWaitingMessages = 100;

/** One agent's share: the messages that follow its order. */
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
    // Of several sizes only the last one counts.
    const last = this.#items.at(-1);
    if (item.request.message.case === "resize" && last?.request.message.case === "resize") this.#items.pop();
    this.#items.push(item);
    this.#wake?.();
  }

  /** Nobody reads it any more. */
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
      // Asked for the next one: the transport has room again.
      if (item.part) this.#onTaken(item.part);
    }
  }
}

/** What one agent is sent. `close` when it has ended. */
export interface TargetInput {
  messages(order: CommandOrder): AsyncIterable<ExecuteRequest>;
  close(): void;
}

/** Gives every agent the same. */
export class CommandInput {
  readonly targets: TargetInput[];
  readonly #queues: InputQueue[];
  readonly #grant: (bytes: number) => void;
  #outstandingBytes = 0;
  #hasEnded = false;

  /** `grant` tells the client that it may send so many bytes more. */
  constructor(count: number, grant: (bytes: number) => void) {
    this.#grant = grant;
    this.#queues = Array.from({ length: count }, () => new InputQueue((part) => this.#taken(part)));
    this.targets = this.#queues;
  }

  write(data: Uint8Array): void {
    if (data.length === 0 || this.#hasEnded) return;
    this.#outstandingBytes += data.length;
    if (this.#outstandingBytes > inputCreditBytes) {
      throw new CoralError({ code: "exhausted", message: `Cannot take input: more than the ${inputCreditBytes} bytes that were granted` });
    }
    this.#send({ case: "input", value: data }, { sizeBytes: data.length, waiting: this.#queues.length });
  }

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
