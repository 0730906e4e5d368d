/**
 * Frames over a connection that was upgraded from HTTP/1.1: `[u8 kind][u8 0][u16 target][u32 length][payload]`, numbers big-endian. Control
 * frames carry one JSON value, the others bytes of a command. `target` says which of several agents is meant; 0 where there is one.
 */

import type { Duplex } from "node:stream";
import { CoralError } from "../../base/errors.ts";

/** Name of the protocol in the Upgrade header. */
export const framesProtocol = "coral-frames/1";

/** Bytes for a program's input, and its output; `error` is its standard error. */
export type Frame =
  | { kind: "control"; target: number; value: unknown }
  | { kind: "data"; target: number; data: Buffer }
  | { kind: "error"; target: number; data: Buffer };

/** One end of such a connection. Whoever gets it closes it. */
export interface FrameStream extends AsyncIterable<Frame>, AsyncDisposable {
  /**
   * Resolves when there is room for more, so that a fast writer waits for a slow reader; false when the other end is gone. Large data is cut
   * into several frames.
   */
  send(frame: FrameToSend): Promise<boolean>;
  /** Aborted when the other end has hung up, or this one has closed. */
  signal: AbortSignal;
  /** Lets out what was sent, then hangs up when the other end has done so, too, or after some seconds. Idempotent. */
  close(): Promise<void>;
  /** Hangs up at once. */
  destroy(): void;
}

export type FrameToSend =
  | { kind: "control"; target?: number; value: unknown }
  | { kind: "data" | "error"; target?: number; data: Uint8Array };

/** Of a control frame: the largest holds the list of targets. */
const maxControlBytes = 4 * 1024 * 1024;
/** Of a frame with bytes. */
const maxDataBytes = 256 * 1024;
const headerBytes = 8;
/** For the other end to take what was sent before a close, and to hang up as well. */
const farewellMs = 5_000;

/**
 * Reading is the only way to learn that the other end is gone, so whoever iterates must not wait inside for that same end; input is held
 * back with credits instead (see command-messages.ts). `head` is what came together with the upgrade.
 */
export function createFrameStream(socket: Duplex, head: Uint8Array = Buffer.alloc(0)): FrameStream {
  return new SocketFrames(socket, head);
}

class SocketFrames implements FrameStream {
  readonly signal: AbortSignal;
  readonly #socket: Duplex;
  readonly #reader = new FrameReader();
  readonly #head: Uint8Array;
  #waiting: (() => void)[] = [];
  #closing: Promise<void> | undefined;

  constructor(socket: Duplex, head: Uint8Array) {
    this.#socket = socket;
    this.#head = head;
    const gone = new AbortController();
    this.signal = gone.signal;
    const onGone = (): void => {
      gone.abort(new CoralError({ code: "cancelled", message: "the other end has hung up" }));
      this.#wake();
    };
    // Half-closed is closed: a caller says that its input ends with a message of its own.
    const onEnd = (): void => {
      onGone();
      socket.end();
    };
    socket.once("end", onEnd).once("close", onGone);
    // Told by "close".
    socket.on("error", () => undefined);
    socket.on("drain", () => this.#wake());
    if (socket.destroyed) onGone();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Frame> {
    yield* this.#reader.read(this.#head);
    try {
      // Who stops reading may still have something to say.
      const chunks = this.#socket.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>;
      for await (const chunk of chunks) yield* this.#reader.read(chunk);
    } catch (error) {
      if (error instanceof CoralError) throw error;
      // Cut in the middle: the same as an end, and `signal` tells.
    }
  }

  async send(frame: FrameToSend): Promise<boolean> {
    const { target = 0 } = frame;
    if (frame.kind === "control") return this.#write(0, target, Buffer.from(JSON.stringify(frame.value)));
    const kind = frame.kind === "data" ? 1 : 2;
    for (let at = 0; at < frame.data.length; at += maxDataBytes) {
      if (!(await this.#write(kind, target, frame.data.subarray(at, at + maxDataBytes)))) return false;
    }
    return true;
  }

  close(): Promise<void> {
    this.#closing ??= new Promise((resolve) => {
      if (this.#socket.destroyed) {
        resolve();
        return;
      }
      const timer = setTimeout(() => this.#socket.destroy(), farewellMs);
      this.#socket.once("close", () => {
        clearTimeout(timer);
        resolve();
      });
      this.#socket.end();
      // What the other end sends meanwhile must be taken: a connection that is closed with something unread is reset, and what this end has said is lost with it.
      this.#socket.resume();
    });
    return this.#closing;
  }

  destroy(): void {
    this.#socket.destroy();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #write(kind: number, target: number, payload: Uint8Array): Promise<boolean> {
    const socket = this.#socket;
    if (this.#closing !== undefined || this.signal.aborted || !socket.writable) return false;
    const header = Buffer.allocUnsafe(headerBytes);
    header.writeUInt8(kind, 0);
    header.writeUInt8(0, 1);
    header.writeUInt16BE(target, 2);
    header.writeUInt32BE(payload.length, 4);
    socket.cork();
    socket.write(header);
    const hasRoom = payload.length === 0 || socket.write(payload);
    socket.uncork();
    if (!hasRoom) {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
    }
    return !this.signal.aborted;
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}

/** Puts frames together from whatever pieces they arrive in. */
class FrameReader {
  #chunks: Uint8Array[] = [];
  #sizeBytes = 0;
  /** Bytes that have to be there before the next step is possible. */
  #neededBytes = headerBytes;
  #header: { kind: number; target: number } | undefined;

  *read(chunk: Uint8Array): Generator<Frame> {
    if (chunk.length > 0) this.#chunks.push(chunk);
    this.#sizeBytes += chunk.length;
    while (this.#sizeBytes >= this.#neededBytes) {
      const bytes = this.#take(this.#neededBytes);
      if (this.#header === undefined) {
        this.#begin(bytes);
        continue;
      }
      const { kind, target } = this.#header;
      this.#header = undefined;
      this.#neededBytes = headerBytes;
      if (kind === 0) yield { kind: "control", target, value: jsonOf(bytes) };
      else yield { kind: kind === 1 ? "data" : "error", target, data: bytes };
    }
  }

  #begin(header: Buffer): void {
    const kind = header.readUInt8(0);
    const length = header.readUInt32BE(4);
    const max = kind === 0 ? maxControlBytes : maxDataBytes;
    if (kind > 2 || header.readUInt8(1) !== 0 || length > max) {
      throw new CoralError({ code: "invalid", message: `Cannot read a frame: it is of kind ${kind} and ${length} bytes long` });
    }
    this.#header = { kind, target: header.readUInt16BE(2) };
    this.#neededBytes = length;
  }

  /** The first `count` bytes; without a copy when they are in one piece. */
  #take(count: number): Buffer {
    this.#sizeBytes -= count;
    const [first] = this.#chunks;
    if (first === undefined || count === 0) return Buffer.alloc(0);
    if (first.length >= count) {
      if (first.length === count) this.#chunks.shift();
      else this.#chunks[0] = first.subarray(count);
      return Buffer.from(first.buffer, first.byteOffset, count);
    }
    const all = Buffer.concat(this.#chunks);
    this.#chunks = all.length === count ? [] : [all.subarray(count)];
    return all.subarray(0, count);
  }
}

function jsonOf(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch (error) {
    throw new CoralError({ code: "invalid", message: "Cannot read a frame: it is not JSON", cause: error });
  }
}
