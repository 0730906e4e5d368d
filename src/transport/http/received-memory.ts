/**
 * Releases the receive buffers of an HTTP/2 session as soon as all their parts have been read. Each socket read fills one buffer, and every stream with
 * data in it gets a part. With garbage collection alone, file transfers at full speed cause several full collections per second.
 */

import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import { Readable } from "node:stream";
import { releaseBuffers } from "../../base/release-bytes.ts";

/** Releasing many pieces costs little more than releasing one. */
const releasedAtOnce = 16;

interface Piece {
  /** Parts that streams have not read yet. */
  unread: number;
  /** True if a reader may keep a part. */
  isKept: boolean;
}

/** Counts unread parts per buffer. A buffer is released when its last part was read and a newer one has arrived. */
export class ReceivedMemory {
  /** Weak, because parts that a stream had not read when it was destroyed stay counted. */
  readonly #pieces = new WeakMap<ArrayBuffer, Piece>();
  /** The buffer that the session may still parse; earlier ones are parsed. */
  #newest: ArrayBuffer | undefined;
  /** Open streams whose readers may keep their parts. */
  #keepers = 0;
  /** Such a stream has closed: parts of its last buffer may still be unread in other streams. */
  #hadKeeper = false;
  #spent: ArrayBuffer[] = [];

  /** Call before the stream's first data arrives. */
  keptBy(stream: ClientHttp2Stream): void {
    this.#keepers++;
    const newest = this.#newest && this.#pieces.get(this.#newest);
    if (newest) newest.isKept = true;
    stream.once("close", () => {
      this.#keepers--;
      this.#hadKeeper = true;
    });
  }

  /** Call before the stream's first data arrives. Each part must then be passed to `read`, and not be used afterwards. */
  lentTo(stream: ClientHttp2Stream): void {
    // Before the stream queues it: only here all parts pass in the order of their arrival.
    stream.push = (part: unknown, encoding?: BufferEncoding): boolean => {
      if (part instanceof Uint8Array) this.#arrived(part.buffer);
      return Readable.prototype.push.call(stream, part, encoding);
    };
  }

  /** Call when the bytes of a part were copied. */
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
