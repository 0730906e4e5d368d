/** Base classes of decoders that read the two directions of a connection separately. They differ in how they resynchronise after lost bytes. */

import type { Chunk, ProtocolDecoder } from "../core/protocol-decoder.ts";
import type { RequestsInFlight } from "../requests/requests-in-flight.ts";

interface LosableStream {
  push(chunk: Chunk): void;
  /** The next payload may start anywhere. */
  lose(): void;
}

interface ResettableStream {
  push(chunk: Chunk): void;
  /** The next payload is expected to start a request or a reply. */
  reset(): void;
}

/** Replies name their request, so that the next one is paired correctly after any loss. */
export class PairedByName implements ProtocolDecoder {
  readonly #inFlight: RequestsInFlight;
  readonly #requests: LosableStream;
  readonly #replies: LosableStream;

  constructor(inFlight: RequestsInFlight, requests: LosableStream, replies: LosableStream) {
    this.#inFlight = inFlight;
    this.#requests = requests;
    this.#replies = replies;
  }

  onRequestBytes(chunk: Chunk): void {
    this.#requests.push(chunk);
  }

  onReplyBytes(chunk: Chunk): void {
    this.#replies.push(chunk);
  }

  /** A later reply still finds its request; a missing one may be among those that were lost. */
  onMissed(what: "requests" | "replies"): void {
    if (what === "requests") this.#requests.lose();
    else {
      this.#replies.lose();
      this.#inFlight.markRepliesLost();
    }
  }

  onIdle(): void {
    this.#inFlight.giveUpUncertain();
  }

  onClose(atNs: number | null): void {
    this.#inFlight.close(atNs);
  }
}

/**
 * Replies are in the order of the requests and do not name them. After lost reply bytes it is unknown which requests the next replies belong to, until
 * the client sends again: most clients wait for all replies first.
 */
export class PairedByOrder implements ProtocolDecoder {
  readonly #inFlight: RequestsInFlight;
  readonly #requests: ResettableStream;
  readonly #replies: ResettableStream;
  #isReplyLost = false;

  constructor(inFlight: RequestsInFlight, requests: ResettableStream, replies: ResettableStream) {
    this.#inFlight = inFlight;
    this.#requests = requests;
    this.#replies = replies;
  }

  onRequestBytes(chunk: Chunk): void {
    if (this.#isReplyLost) {
      this.#isReplyLost = false;
      this.#replies.reset();
      this.#inFlight.endResponded();
    } else if (this.#inFlight.oldest?.isHole === true && this.#inFlight.oldest.firstByteNs >= 0) this.#inFlight.giveUp();
    this.#requests.push(chunk);
  }

  onReplyBytes(chunk: Chunk): void {
    if (this.#isReplyLost) this.loseReplies(chunk, chunk.fullLength);
    else this.#replies.push(chunk);
  }

  onMissed(what: "requests" | "replies", atNs: number): void {
    if (what === "requests") {
      this.#requests.reset();
      this.#inFlight.beginHole({ atNs, startNs: 0 });
    } else {
      this.#isReplyLost = true;
      this.#inFlight.giveUp();
    }
  }

  onIdle(): void {
    if (this.#isReplyLost) this.#inFlight.endResponded();
  }

  onClose(atNs: number | null): void {
    this.#inFlight.close(atNs);
  }

  /** Called by the reader of replies. The open requests share `lostBytes`: together they got as many. */
  loseReplies(chunk: Chunk, lostBytes = 0): void {
    this.#isReplyLost = true;
    this.#inFlight.respondedAll(chunk.atNs, lostBytes);
  }
}
