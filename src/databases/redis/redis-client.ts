/** A RESP2 session for a few bounded queries. Redis has no read-only sessions, so only read commands are ever sent. */

import { CoralError } from "../../base/errors.ts";
import type { DatabaseCredentials } from "../../model/database-facts.ts";
import { ByteStream, type DatabaseAddress } from "../wire/byte-stream.ts";

export type RedisReply = string | number | null | readonly RedisReply[] | RedisProblem;

/** An error reply. One in a pipeline does not affect the other replies. */
export class RedisProblem {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** The only commands ever sent. AUTH, ACL and CLIENT do not touch keys; MEMORY is used for MEMORY USAGE. */
const readingCommands = new Set(["AUTH", "INFO", "SLOWLOG", "SCAN", "MEMORY", "TYPE", "ACL", "CLIENT"]);
/** Limits on a reply, so that a server cannot exhaust memory or the stack. */
const maxItems = 10_000;
const maxDepth = 4;
const maxTextBytes = 4 * 1024 * 1024;

export class RedisClient implements Disposable {
  readonly #stream: ByteStream;

  private constructor(stream: ByteStream) {
    this.#stream = stream;
  }

  static async open(address: DatabaseAddress, { user, password }: DatabaseCredentials, signal: AbortSignal): Promise<RedisClient> {
    const client = new RedisClient(await ByteStream.open(address, { signal }));
    try {
      if (password !== "") {
        const reply = await client.command(user === "" ? ["AUTH", password] : ["AUTH", user, password]);
        if (reply instanceof RedisProblem) throw refused(reply.text);
      }
      return client;
    } catch (error) {
      client[Symbol.dispose]();
      throw error;
    }
  }

  async command(words: readonly string[]): Promise<RedisReply> {
    const [reply = null] = await this.pipeline([words]);
    return reply;
  }

  /** Sends all commands before reading, so that a sample of keys costs one round trip. Replies are in command order. */
  async pipeline(commands: readonly (readonly string[])[]): Promise<RedisReply[]> {
    for (const [name = ""] of commands)
      if (!readingCommands.has(name)) throw new CoralError({ code: "not-permitted", message: `cannot send ${name} to Redis` });
    this.#stream.write(Buffer.concat(commands.map(encoded)));
    const replies: RedisReply[] = [];
    for (const _ of commands) replies.push(await this.#reply(0));
    return replies;
  }

  [Symbol.dispose](): void {
    this.#stream[Symbol.dispose]();
  }

  async #reply(depth: number): Promise<RedisReply> {
    const line = await this.#stream.readLine();
    const [kind, rest] = [line.slice(0, 1), line.slice(1)];
    if (kind === "+") return rest;
    if (kind === "-") return new RedisProblem(rest.slice(0, 200));
    const number = Number(rest);
    if (!Number.isInteger(number) || rest === "") throw notRedis();
    if (kind === ":") return number;
    // A length of -1 is the null bulk string or null array of RESP2.
    if (number < 0) return null;
    if (kind === "$" && number <= maxTextBytes) {
      const text = (await this.#stream.read(number)).toString("utf8");
      // Skips the CR LF after a bulk string.
      await this.#stream.read(2);
      return text;
    }
    if (kind !== "*" || number > maxItems || depth >= maxDepth) throw notRedis();
    const items: RedisReply[] = [];
    for (let left = number; left > 0; left--) items.push(await this.#reply(depth + 1));
    return items;
  }
}

function encoded(words: readonly string[]): Buffer {
  return Buffer.from(`*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`);
}

const refused = (text: string): CoralError =>
  new CoralError({
    code: "unauthenticated",
    message: `cannot log in to Redis: ${text.split(" ")[0] === "WRONGPASS" ? "wrong user or password" : "the server refuses AUTH; it may have no password set"}; check the credentials file`,
  });

const notRedis = (): CoralError =>
  new CoralError({ code: "unavailable", message: "cannot read from the database: it does not speak the Redis protocol" });
