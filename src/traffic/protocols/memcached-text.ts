/** memcached's text protocol, classic and meta commands. The route is the command; keys are never read. */

import type { Chunk, DecoderContext, ProtocolDecoder } from "../core/protocol-decoder.ts";
import { type OpenRequest, RequestsInFlight } from "../requests/requests-in-flight.ts";
import { unknownRoute } from "../requests/route-template.ts";
import { PairedByOrder } from "./paired-streams.ts";

const storing = new Set(["set", "add", "replace", "append", "prepend", "cas"]);
const fetching = new Set(["get", "gets", "gat", "gats"]);
/** Commands with a one-line reply, and those whose reply ends with `END`. */
const others = new Set(
  "delete incr decr touch stats flush_all version verbosity quit shutdown lru lru_crawler slabs watch cache_memlimit refresh_certs mg ms md ma mn me".split(
    " ",
  ),
);
/** A command line may hold a hundred keys of 250 bytes. */
const maxLineBytes = 65_536;
/** After a key of up to 250 bytes come flags, expiry and data length. */
const maxKeptBytes = 512;

/** Whether a line starts like a command; the rule of probes/protocol/classify.h, which knows only the longest names. */
export function isMemcachedCommand(line: string): boolean {
  const verb = /^[a-z_]+(?=[ \r\n])/.exec(line)?.[0] ?? "";
  return storing.has(verb) || fetching.has(verb) || others.has(verb);
}

/** Lines and data blocks of one direction. */
class LineStream {
  readonly #onLine: (line: string, chunk: Chunk) => number;
  readonly #onLost: (chunk: Chunk) => void;
  #line = "";
  #lineBytes = 0;
  #dataLeft = 0;
  /** Of the payload with the line's first byte. */
  atNs = 0;
  startNs = 0;
  lengthBytes = 0;

  /**
   * `onLine` gets the head of each line and returns the length of the data block after it, with its line end; 0 for none, -1 if this is not
   * memcached.
   */
  constructor(onLine: (line: string, chunk: Chunk) => number, onLost: (chunk: Chunk) => void) {
    this.#onLine = onLine;
    this.#onLost = onLost;
  }

  reset(): void {
    this.#line = "";
    this.#lineBytes = 0;
    this.#dataLeft = 0;
  }

  push(chunk: Chunk): void {
    const { bytes } = chunk;
    let at = 0;
    while (at < bytes.length) {
      if (this.#dataLeft > 0) {
        const taken = Math.min(this.#dataLeft, bytes.length - at);
        this.#dataLeft -= taken;
        at += taken;
        continue;
      }
      if (this.#lineBytes === 0) {
        this.atNs = chunk.atNs;
        this.startNs = chunk.startNs;
      }
      const end = bytes.indexOf(10, at);
      const to = end < 0 ? bytes.length : end;
      if (this.#line.length < maxKeptBytes) this.#line += bytes.toString("latin1", at, Math.min(to, at + maxKeptBytes));
      this.#lineBytes += to - at;
      at = to + 1;
      if (end < 0) {
        if (this.#lineBytes > maxLineBytes) this.#lose(chunk);
        break;
      }
      if (!this.#endLine(chunk)) return;
    }
    const missingBytes = chunk.fullLength - bytes.length;
    if (missingBytes > this.#dataLeft) this.#lose(chunk);
    else if (missingBytes > 0) this.#dataLeft -= missingBytes;
  }

  #endLine(chunk: Chunk): boolean {
    const line = this.#line.endsWith("\r") ? this.#line.slice(0, -1) : this.#line;
    this.lengthBytes = this.#lineBytes + 1;
    this.#line = "";
    this.#lineBytes = 0;
    const dataBytes = this.#onLine(line, chunk);
    if (dataBytes < 0) {
      this.#lose(chunk);
      return false;
    }
    this.#dataLeft = dataBytes;
    return true;
  }

  #lose(chunk: Chunk): void {
    this.reset();
    this.#onLost(chunk);
  }
}

/** What ends the reply. */
const oneLine = 0;
const untilEnd = 1;
const meta = 2;
/** Meta commands with the flag `q`, which suppresses the usual reply. */
const quiet = 3;
/** Replies that a quiet command still gets, besides errors; of `mg` only hits. */
const repliesToQuiet: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ["mg", new Set(["VA", "HD"])],
  ["ms", new Set(["NS", "EX", "NF"])],
  ["md", new Set(["EX"])],
  ["ma", new Set(["NS", "EX"])],
]);

/** Commands without a reply end with the connection. */
class PairedOrQuiet extends PairedByOrder {
  readonly #endQuiet: (atNs: number) => void;

  constructor(endQuiet: (atNs: number) => void, ...paired: ConstructorParameters<typeof PairedByOrder>) {
    super(...paired);
    this.#endQuiet = endQuiet;
  }

  override onClose(atNs: number | null): void {
    if (atNs !== null) this.#endQuiet(atNs);
    super.onClose(atNs);
  }
}

class MemcachedTextExchange {
  readonly decoder: PairedByOrder;
  readonly #context: DecoderContext;
  readonly #inFlight: RequestsInFlight;
  readonly #requests: LineStream;
  readonly #replies: LineStream;

  constructor(context: DecoderContext) {
    this.#context = context;
    this.#inFlight = new RequestsInFlight(context, 4096);
    this.#requests = new LineStream(
      (line) => this.#onCommand(line),
      (chunk) => this.#inFlight.beginHole(chunk),
    );
    this.#replies = new LineStream(
      (line, chunk) => this.#onReply(line, chunk),
      (chunk) => this.decoder.loseReplies(chunk),
    );
    this.decoder = new PairedOrQuiet((atNs) => this.#endQuiet(atNs), this.#inFlight, this.#requests, this.#replies);
  }

  #onCommand(line: string): number {
    const words = line.split(" ");
    const verb = words[0] ?? "";
    if (storing.has(verb)) return this.#begin(verb, oneLine, blockLength(words[4]), words.includes("noreply", 5));
    if (fetching.has(verb)) return this.#begin(verb, untilEnd, 0, false);
    if (verb === "ms") return this.#begin(verb, words.includes("q", 3) ? quiet : meta, blockLength(words[2]), false);
    if (verb === "mg" || verb === "md" || verb === "ma") return this.#begin(verb, words.includes("q", 2) ? quiet : meta, 0, false);
    if (verb === "quit") return 0;
    if (others.has(verb)) return this.#begin(verb, verb === "stats" ? untilEnd : oneLine, 0, words.includes("noreply", 1));
    // The server replies ERROR to an unknown command.
    return /^[a-z_]{1,20}$/.test(verb) ? this.#begin("", oneLine, 0, false) : -1;
  }

  #begin(verb: string, state: number, dataBytes: number, isOneWay: boolean): number {
    if (dataBytes < 0) return -1;
    const { lengthBytes } = this.#requests;
    const request = this.#inFlight.begin(this.#requests, verb, verb === "" ? unknownRoute : verb, lengthBytes + dataBytes);
    request.state = state;
    if (isOneWay) this.#inFlight.end(request);
    return dataBytes;
  }

  #onReply(line: string, chunk: Chunk): number {
    const word = /^[A-Z_]+|^\d+$/.exec(line)?.[0];
    if (word === undefined) return -1;
    const words = line.split(" ");
    const dataBytes = word === "VALUE" ? blockLength(words[3]) : word === "VA" ? blockLength(words[1]) : 0;
    if (!isError(word)) this.#endQuiet(chunk.atNs, word);
    const request = this.#inFlight.oldest;
    if (request === undefined || request.isHole) {
      if (request !== undefined) this.#inFlight.responded(request, 0, chunk.atNs);
      if (word !== "VALUE" && word !== "STAT") this.#context.sink.undecoded(1);
      return dataBytes;
    }
    this.#inFlight.responded(request, this.#replies.lengthBytes + Math.max(0, dataBytes), this.#replies.atNs, chunk.atNs);
    if (word === "VALUE" || word === "STAT") {
      request.status = word === "VALUE" ? "HIT" : "";
      return request.state === untilEnd ? dataBytes : -1;
    }
    if (word === "VA" && request.state !== meta && request.state !== quiet) return -1;
    this.#end(request, word);
    return dataBytes;
  }

  /** Replies are in order: quiet commands before the first one that can get this reply have none. */
  #endQuiet(atNs: number, word?: string): void {
    for (let oldest = this.#inFlight.oldest; oldest?.state === quiet; oldest = this.#inFlight.oldest) {
      if (word !== undefined && repliesToQuiet.get(oldest.method)?.has(word) === true) return;
      if (oldest.method === "mg") oldest.status = "MISS";
      this.#inFlight.responded(oldest, 0, atNs);
      this.#inFlight.end(oldest);
    }
  }

  #end(request: OpenRequest, word: string): void {
    if (isError(word)) {
      request.status = word;
      request.isError = true;
    } else if (request.state === untilEnd) {
      if (request.status === "" && fetching.has(request.method)) request.status = "MISS";
    } else if (word === "VA") request.status = "HIT";
    else if (word === "EN") request.status = "MISS";
    else if (!/^\d/.test(word) && word !== "VERSION") request.status = word;
    this.#inFlight.end(request);
  }
}

function isError(word: string): boolean {
  return word === "ERROR" || word === "CLIENT_ERROR" || word === "SERVER_ERROR";
}

/** Includes the line end after the data. */
function blockLength(word: string | undefined): number {
  return word !== undefined && /^\d{1,10}$/.test(word) ? Number(word) + 2 : -1;
}

export function createMemcachedTextDecoder(context: DecoderContext): ProtocolDecoder {
  return new MemcachedTextExchange(context).decoder;
}
