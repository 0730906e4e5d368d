/**
 * Releases the receive buffers of an HTTP/2 session as soon as all their parts have been read. Each read of the socket is one buffer, and every stream with
 * data in it gets a part. Left to the garbage collector, file transfers at full speed cause several full collections a second.
 */

import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import { Readable } from "node:stream";
import { releaseBuffers } from "../../base/release-bytes.ts";

/** Releasing many pieces costs little more than releasing one. */
const releasedAtOnce = 16;

interface Piece {
  /** Parts that streams hold and have not read yet. */
  unread: number;
  /** A reader may keep a part of it. */
  isKept: boolean;
}

export class ReceivedMemory {
  /** Weak: what a stream had not read when it was destroyed stays counted. */
  readonly #pieces = new WeakMap<ArrayBuffer, Piece>();
  /** The session may still parse this one, but none before it. */
  #newest: ArrayBuffer | undefined;
  /** Open streams whose readers may keep what they read. */
  #keepers = 0;
  /** One of them closed: the piece that its last part came in may still be to come from the others. */
  #hadKeeper = false;
  #spent: ArrayBuffer[] = [];

  /** Call before the stream's first data arrive. */
  keptBy(stream: ClientHttp2Stream): void {
    this.#keepers++;
    const newest = this.#newest && this.#pieces.get(this.#newest);
    if (newest) newest.isKept = true;
    stream.once("close", () => {
      this.#keepers--;
      this.#hadKeeper = true;
    });
  }

  /** Call before the stream's first data arrive. Each part must then be passed to `read`, and not be used afterwards. */
  lentTo(stream: ClientHttp2Stream): void {
    // Before the stream may queue it: only here all parts pass in the order in which they came.
    stream.push = (part: unknown, encoding?: BufferEncoding): boolean => {
      if (part instanceof Uint8Array) this.#arrived(part.buffer);
      return Readable.prototype.push.call(stream, part, encoding);
    };
  }

  read({ buffer }: Uint8Array): void {
    const piece = buffer instanceof ArrayBuffer ? this.#pieces.get(buffer) : undefined;
    if (piece === undefined || !(buffer instanceof ArrayBuffer)) return;
    piece.unread--;
    if (buffer !== this.#newest) this.#giveBack(buffer, piece);
  }

  #arrived(buffer: ArrayBufferLike): void {
    if (!(buffer instanceof ArrayBuffer)) return;
    const before = this.#newest;
    if (buffer !== before) {
      this.#newest = buffer;
      this.#pieces.set(buffer, { unread: 0, isKept: this.#keepers > 0 || this.#hadKeeper });
      this.#hadKeeper = false;
      const piece = before && this.#pieces.get(before);
      if (before && piece) this.#giveBack(before, piece);
    }
    const newest = this.#pieces.get(buffer);
    if (newest) newest.unread++;
  }

  #giveBack(buffer: ArrayBuffer, { unread, isKept }: Piece): void {
    if (unread > 0 || isKept) return;
    this.#pieces.delete(buffer);
    this.#spent.push(buffer);
    if (this.#spent.length < releasedAtOnce) return;
    releaseBuffers(this.#spent);
    this.#spent = [];
  }
}

const memories = new WeakMap<ClientHttp2Session, ReceivedMemory>();

/** One for each session; all streams of the session must be registered with it. */
export function receivedMemoryOf(session: ClientHttp2Session): ReceivedMemory {
  const known = memories.get(session);
  if (known) return known;
  const made = new ReceivedMemory();
  memories.set(session, made);
  return made;
}
