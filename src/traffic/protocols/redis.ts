/** Redis and what speaks like it (Valkey, KeyDB, Dragonfly): requests by command, pipelined or not. Keys and values are never looked at. */

import type { Chunk, DecoderContext, ProtocolDecoder } from "../core/protocol-decoder.ts";
import { RequestsInFlight } from "../requests/requests-in-flight.ts";
import { unknownRoute } from "../requests/route-template.ts";
import { PairedByOrder } from "./paired-streams.ts";
import { redisCommands } from "./redis-commands.ts";
import { RedisScanner, type RedisValue } from "./redis-scanner.ts";

/** Commands whose second word belongs to the command. */
const containers = new Set(
  "ACL CLIENT CLUSTER COMMAND CONFIG DEBUG FUNCTION LATENCY MEMORY MODULE OBJECT PUBSUB SCRIPT SENTINEL SLOWLOG XGROUP XINFO".split(" "),
);
/** As clients write them. */
const containerTexts = new Set([...containers].flatMap((name) => [name, name.toLowerCase()]));
/** After these the server speaks without being asked. */
const listening = new Set("SUBSCRIBE PSUBSCRIBE SSUBSCRIBE MONITOR PSYNC SYNC".split(" "));
/** What subscribers get, as the first word of an array. */
const pushes = new Set(["message", "pmessage", "smessage", "invalidate"]);

/** Method and route of a command; both `unknown` when the word cannot be a command. */
export function redisNames(verb: string, second: string): { method: string; route: string } {
  if (!/^[A-Za-z][A-Za-z0-9._-]{0,31}$/.test(verb)) return { method: "", route: unknownRoute };
  const method = verb.toUpperCase();
  const isContainer = containers.has(method) && /^[A-Za-z-]{2,20}$/.test(second);
  return { method, route: isContainer ? `${method} ${second.toUpperCase()}` : method };
}

/** `WRONGTYPE` of an error reply. */
export function redisErrorWord(text: string): string {
  return /^[A-Z][A-Z0-9_]{0,31}(?= |$)/.exec(text)?.[0] ?? "ERR";
}

class RedisExchange {
  readonly decoder: PairedByOrder;
  readonly #context: DecoderContext;
  readonly #inFlight: RequestsInFlight;
  readonly #names = new Map<string, { method: string; route: string }>();
  #isListening = false;

  constructor(context: DecoderContext) {
    this.#context = context;
    this.#inFlight = new RequestsInFlight(context, 8192);
    const requests = new RedisScanner(
      { isFirstWanted: () => true, isSecondWanted: (first) => containerTexts.has(first) },
      (value) => this.#onCommand(value),
      (chunk) => this.#inFlight.beginHole(chunk),
    );
    const replies = new RedisScanner(
      { isFirstWanted: () => this.#isListening, isSecondWanted: () => false },
      (value, chunk) => this.#onReply(value, chunk),
      (chunk) => this.decoder.loseReplies(chunk),
    );
    this.decoder = new PairedByOrder(this.#inFlight, requests, replies);
  }

  #onCommand(value: RedisValue): void {
    let { first, second } = value;
    if (value.type === 0) {
      const words = first.trim().split(/\s+/, 2);
      second = words[1] ?? "";
      first = words[0] ?? "";
      if (first === "") return;
      // After a loss, a piece of a value looks like an inline command.
      if (!redisCommands.has(first.toUpperCase())) first = "?";
    } else if (value.type !== 0x2a) {
      this.#context.sink.undecoded(1);
      return;
    }
    const { method, route } = this.#namesOf(first, second);
    if (listening.has(method)) this.#isListening = true;
    this.#inFlight.begin(value, method, route, value.lengthBytes);
  }

  /** Most connections use a few commands over and over. */
  #namesOf(first: string, second: string): { method: string; route: string } {
    const known = this.#names.get(first);
    if (known !== undefined) return known;
    const names = redisNames(first, second);
    if (!containers.has(names.method) && this.#names.size < 64) this.#names.set(first, names);
    return names;
  }

  #onReply(value: RedisValue, chunk: Chunk): void {
    // Pushes and attributes answer nothing.
    if (value.type === 0x3e || value.type === 0x7c) {
      if (value.type === 0x7c || !this.#isAcknowledgement(value)) return;
    }
    const request = this.#inFlight.oldest;
    if (this.#isListening && value.type === 0x2a) {
      if (pushes.has(value.first)) return;
      // One command may subscribe to many channels, each of which is acknowledged.
      if (value.first.endsWith("subscribe") && request?.method !== value.first.toUpperCase()) return;
    }
    if (request === undefined || request.isHole) {
      if (request !== undefined) this.#inFlight.answered(request, 0, chunk.atNs);
      if (!this.#isListening) this.#context.sink.undecoded(1);
      return;
    }
    if (value.type === 0x2d || value.type === 0x21) {
      request.isError = true;
      request.status = redisErrorWord(value.first);
      if (value.first.startsWith("ERR unknown command")) {
        // Not a command, so it may be anything.
        request.method = "";
        request.route = unknownRoute;
      }
    }
    this.#inFlight.answered(request, value.lengthBytes, value.atNs, chunk.atNs);
    this.#inFlight.end(request);
  }

  #isAcknowledgement(value: RedisValue): boolean {
    return this.#inFlight.oldest?.method === value.first.toUpperCase();
  }
}

export function createRedisDecoder(context: DecoderContext): ProtocolDecoder {
  return new RedisExchange(context).decoder;
}
