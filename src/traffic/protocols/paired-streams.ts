/** Decoders that read the two directions of a connection apart, and differ in how they find their way again after bytes were missed. */

import type { Chunk, ProtocolDecoder } from "../core/protocol-decoder.ts";
import type { RequestsInFlight } from "../requests/requests-in-flight.ts";

interface LosableStream {
  push(chunk: Chunk): void;
  /** The next payload may begin anywhere. */
  lose(): void;
}

interface ResettableStream {
  push(chunk: Chunk): void;
  /** The next payload is expected to begin a request or an answer. */
  reset(): void;
}

/** Answers name their request: whatever was missed, the next one finds its own. */
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

  /** An answer that comes still finds its request; one that does not may have been among those that were lost. */
  onMissed(what: "requests" | "replies"): void {
    if (what === "requests") this.#requests.lose();
    else {
      this.#replies.lose();
      this.#inFlight.doubt();
    }
  }

  onQuiet(): void {
    this.#inFlight.giveUpDoubtful();
  }

  onClose(atNs: number | null): void {
    this.#inFlight.close(atNs);
  }
}

/**
 * Answers come in the order of the requests and name none. After bytes of answers were missed it is not known which requests the next ones answer,
 * until the client asks again: those that wait for all their answers before they go on are the rule.
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
      this.#inFlight.endAnswered();
    } else if (this.#inFlight.oldest?.isHole === true && this.#inFlight.oldest.firstByteNs >= 0) this.#inFlight.giveUp();
    this.#requests.push(chunk);
  }

  onReplyBytes(chunk: Chunk): void {
    if (this.#isReplyLost) this.loseReplies(chunk);
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

  onQuiet(): void {
    if (this.#isReplyLost) this.#inFlight.endAnswered();
  }

  onClose(atNs: number | null): void {
    this.#inFlight.close(atNs);
  }

  /** Told by whoever reads the answers. */
  loseReplies(chunk: Chunk): void {
    this.#isReplyLost = true;
    this.#inFlight.answerAll(chunk.atNs);
  }
}
