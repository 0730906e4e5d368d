/** Redis and compatible servers (Valkey, KeyDB, Dragonfly): requests by command, pipelined or not. Keys and values are never read. */

import type { Chunk, DecoderContext, ProtocolDecoder } from "../core/protocol-decoder.ts";
import { RequestsInFlight } from "../requests/requests-in-flight.ts";
import { unknownRoute } from "../requests/route-template.ts";
import { PairedByOrder } from "./paired-streams.ts";
import { RedisScanner, type RedisValue } from "./redis-scanner.ts";

/** Commands in use: they distinguish requests from replies, which are arrays, too, and from other text. */
export const redisCommands = new Set(
  (
    "APPEND AUTH BITCOUNT BLMOVE BLPOP BRPOP BRPOPLPUSH BZPOPMAX BZPOPMIN CLIENT CLUSTER COMMAND CONFIG COPY DBSIZE DECR DECRBY DEL DISCARD DUMP ECHO EVAL " +
    "EVALSHA EXEC EXISTS EXPIRE EXPIREAT FCALL FLUSHALL FLUSHDB GEOADD GEOSEARCH GET GETDEL GETEX GETRANGE GETSET HDEL HELLO HEXISTS HGET HGETALL HINCRBY " +
    "HKEYS HLEN HMGET HMSET HSCAN HSET HSETNX HVALS INCR INCRBY INCRBYFLOAT INFO KEYS LASTSAVE LINDEX LLEN LMOVE LPOP LPUSH LRANGE LREM LSET LTRIM MGET " +
    "MONITOR MSET MSETNX MULTI OBJECT PERSIST PEXPIRE PFADD PFCOUNT PING PSETEX PSUBSCRIBE PSYNC PTTL PUBLISH QUIT READONLY RENAME REPLCONF ROLE RPOP " +
    "RPOPLPUSH RPUSH SADD SCAN SCARD SCRIPT SDIFF SELECT SET SETEX SETNX SETRANGE SINTER SISMEMBER SMEMBERS SORT SPOP SPUBLISH SRANDMEMBER SREM SSCAN " +
    "SSUBSCRIBE STRLEN SUBSCRIBE SUNION TIME TOUCH TTL TYPE UNLINK UNSUBSCRIBE UNWATCH WAIT WATCH XACK XADD XCLAIM XDEL XGROUP XINFO XLEN XPENDING XRANGE " +
    "XREAD XREADGROUP XTRIM ZADD ZCARD ZCOUNT ZINCRBY ZPOPMAX ZPOPMIN ZRANGE ZRANGEBYSCORE ZRANK ZREM ZREVRANGE ZSCAN ZSCORE"
  ).split(" "),
);

/** Commands with subcommands. */
const containers = new Set(
  "ACL CLIENT CLUSTER COMMAND CONFIG DEBUG FUNCTION LATENCY MEMORY MODULE OBJECT PUBSUB SCRIPT SENTINEL SLOWLOG XGROUP XINFO".split(" "),
);
/** In the spellings that clients use. */
const containerTexts = new Set([...containers].flatMap((name) => [name, name.toLowerCase()]));
/** After these, the server sends messages without a request. */
const subscribeCommands = new Set("SUBSCRIBE PSUBSCRIBE SSUBSCRIBE MONITOR PSYNC SYNC".split(" "));
/** First words of messages to subscribers. */
const pushes = new Set(["message", "pmessage", "smessage", "invalidate"]);

/** Method and route of a command; the route is `unknown` if the word cannot be a command. */
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
  #isSubscribed = false;

  constructor(context: DecoderContext) {
    this.#context = context;
    this.#inFlight = new RequestsInFlight(context, 8192);
    const requests = new RedisScanner(
      { isFirstWanted: () => true, isSecondWanted: (first) => containerTexts.has(first) },
      (value) => this.#onCommand(value),
      (chunk) => this.#inFlight.beginHole(chunk),
    );
    const replies = new RedisScanner(
      { isFirstWanted: () => this.#isSubscribed, isSecondWanted: () => false },
      (value, chunk) => this.#onReply(value, chunk),
      (chunk, lostBytes) => this.decoder.loseReplies(chunk, lostBytes),
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
      // After a loss, part of a value may look like an inline command.
      if (!redisCommands.has(first.toUpperCase())) first = "?";
    } else if (value.type !== 0x2a) {
      this.#context.sink.undecoded(1);
      return;
    }
    const { method, route } = this.#namesOf(first, second);
    if (subscribeCommands.has(method)) this.#isSubscribed = true;
    this.#inFlight.begin(value, method, route, value.lengthBytes);
  }

  /** Most connections repeat a few commands. */
  #namesOf(first: string, second: string): { method: string; route: string } {
    const known = this.#names.get(first);
    if (known !== undefined) return known;
    const names = redisNames(first, second);
    if (!containers.has(names.method) && this.#names.size < 64) this.#names.set(first, names);
    return names;
  }

  #onReply(value: RedisValue, chunk: Chunk): void {
    // Pushes and attributes are not replies.
    if (value.type === 0x3e || value.type === 0x7c) {
      if (value.type === 0x7c || !this.#isAcknowledgement(value)) return;
    }
    const request = this.#inFlight.oldest;
    if (this.#isSubscribed && value.type === 0x2a) {
      if (pushes.has(value.first)) return;
      // One command may subscribe to many channels, each with its own acknowledgement.
      if (value.first.endsWith("subscribe") && request?.method !== value.first.toUpperCase()) return;
    }
    if (request === undefined || request.isHole) {
      if (request !== undefined) this.#inFlight.responded(request, 0, chunk.atNs);
      if (!this.#isSubscribed) this.#context.sink.undecoded(1);
      return;
    }
    if (value.type === 0x2d || value.type === 0x21) {
      request.isError = true;
      request.status = redisErrorWord(value.first);
      if (value.first.startsWith("ERR unknown command")) {
        // Not a known command, so it may be anything.
        request.method = "";
        request.route = unknownRoute;
      }
    }
    this.#inFlight.responded(request, value.lengthBytes, value.atNs, chunk.atNs);
    this.#inFlight.end(request);
  }

  #isAcknowledgement(value: RedisValue): boolean {
    return this.#inFlight.oldest?.method === value.first.toUpperCase();
  }
}

export function createRedisDecoder(context: DecoderContext): ProtocolDecoder {
  return new RedisExchange(context).decoder;
}
