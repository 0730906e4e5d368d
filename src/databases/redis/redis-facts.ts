/** Facts from Redis: memory and evictions, slow commands, and the patterns of big keys from a bounded sample. */

import { setTimeout as delay } from "node:timers/promises";
import { CoralError } from "../../base/errors.ts";
import type { BigKeyFact, CacheFact, DatabaseCredentials, DatabaseFacts, SlowCommandFact } from "../../model/database-facts.ts";
import { redactShapes } from "../../redact/index.ts";
import type { DatabaseAddress } from "../wire/byte-stream.ts";
import { RedisClient, RedisProblem, type RedisReply } from "./redis-client.ts";

/** Number of keys in the sample, and keys per SCAN. */
const sampleSize = 500;
const scanCount = "100";
const maxScans = 10;
const bigKeysShown = 5;
const slowShown = 10;
/** Time between the two readings of counters. */
const intervalMs = 500;

export async function readRedis(
  address: DatabaseAddress,
  login: DatabaseCredentials,
  { signal }: { signal: AbortSignal },
): Promise<DatabaseFacts> {
  using client = await RedisClient.open(address, login, signal);
  await client.command(["CLIENT", "SETNAME", "coral"]);
  const first = infoIn(await client.command(["INFO"]));
  const startedMs = performance.now();
  const notes: string[] = [];
  const [slow, sample] = [await slowCommands(client, notes), await sampleKeys(client, notes)];
  const passedMs = performance.now() - startedMs;
  if (passedMs < intervalMs) await delay(intervalMs - passedMs);
  const second = infoIn(await client.command(["INFO"]));
  const seconds = (performance.now() - startedMs) / 1_000;
  const number = (name: string): number => Number(second.get(name) ?? 0);
  const cache: CacheFact = {
    usedBytes: number("used_memory"),
    maxBytes: number("maxmemory"),
    policy: second.get("maxmemory_policy") ?? "",
    evictedKeys: number("evicted_keys"),
    evictedPerSecond: Math.max(0, number("evicted_keys") - Number(first.get("evicted_keys") ?? 0)) / seconds,
    blockedClients: number("blocked_clients"),
    keys: [...second]
      .filter(([name]) => /^db\d+$/.test(name))
      .reduce((sum, [, text]) => sum + Number(/keys=(\d+)/.exec(text)?.[1] ?? 0), 0),
    keysSampled: sample.sampled,
    bigKeys: sample.big,
    slowCommands: slow,
  };
  return {
    engine: "redis",
    version: second.get("redis_version") ?? "",
    user: login.user === "" ? "default" : login.user,
    database: "",
    canWrite: await canWrite(client, login.user),
    connections: {
      open: number("connected_clients"),
      active: number("connected_clients") - number("blocked_clients"),
      idleInTransaction: 0,
      max: number("maxclients") || null,
    },
    clients: [],
    locks: [],
    plan: null,
    tables: [],
    statements: [],
    cache,
    notes,
  };
}

function infoIn(reply: RedisReply): Map<string, string> {
  if (reply instanceof RedisProblem) {
    const isLocked = reply.text.startsWith("NOAUTH");
    throw new CoralError({
      code: isLocked ? "unauthenticated" : "unavailable",
      message: `cannot read INFO of Redis: ${isLocked ? "it requires a password; add one to the credentials file" : "the account lacks permission for INFO; allow +info +slowlog +scan +memory|usage"}`,
    });
  }
  const lines = String(reply).split("\r\n");
  return new Map(
    lines.filter((line) => line.includes(":")).map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]),
  );
}

/** ACL DRYRUN exists since version 7 and needs admin permission; null where it is not available. */
async function canWrite(client: RedisClient, user: string): Promise<boolean | null> {
  const reply = await client.command(["ACL", "DRYRUN", user === "" ? "default" : user, "SET", "coral", "x"]);
  if (reply instanceof RedisProblem) return null;
  return reply === "OK";
}

/** Keeps only the command and the pattern of its first key. */
async function slowCommands(client: RedisClient, notes: string[]): Promise<SlowCommandFact[]> {
  const reply = await client.command(["SLOWLOG", "GET", String(slowShown)]);
  if (!Array.isArray(reply)) {
    notes.push("cannot read the slow log: the account lacks permission for SLOWLOG");
    return [];
  }
  return reply.flatMap((entry: RedisReply) => {
    if (!Array.isArray(entry)) return [];
    const [, at, durationUs, words] = entry as readonly RedisReply[];
    const [name = "", key] = Array.isArray(words) ? (words as readonly RedisReply[]) : [];
    const text = `${String(name).toUpperCase().slice(0, 20)}${typeof key === "string" ? ` ${keyPattern(key)}` : ""}`;
    return [{ command: text, durationUs: Number(durationUs), at: new Date(Number(at) * 1_000).toISOString() }];
  });
}

async function sampleKeys(client: RedisClient, notes: string[]): Promise<{ sampled: number; big: BigKeyFact[] }> {
  const keys = new Set<string>();
  let cursor = "0";
  for (let scans = 0; scans < maxScans && keys.size < sampleSize; scans++) {
    const reply = await client.command(["SCAN", cursor, "COUNT", scanCount]);
    if (!Array.isArray(reply)) {
      notes.push("cannot sample keys: the account lacks permission for SCAN");
      break;
    }
    const [next, found] = reply as readonly RedisReply[];
    for (const key of Array.isArray(found) ? found : []) keys.add(String(key));
    cursor = String(next);
    if (cursor === "0") break;
  }
  const names = [...keys].slice(0, sampleSize);
  const sizes = names.length === 0 ? [] : await client.pipeline(names.map((key) => ["MEMORY", "USAGE", key, "SAMPLES", "5"]));
  if (sizes[0] instanceof RedisProblem) notes.push("cannot read sizes of keys: the account lacks permission for MEMORY USAGE");
  const biggest = names
    .flatMap((key, index) => (typeof sizes[index] === "number" ? [{ key, sizeBytes: Number(sizes[index]) }] : []))
    .sort((a, b) => b.sizeBytes - a.sizeBytes)
    .slice(0, bigKeysShown);
  const types = biggest.length === 0 ? [] : await client.pipeline(biggest.map(({ key }) => ["TYPE", key]));
  return {
    sampled: names.length,
    big: biggest.map(({ key, sizeBytes }, index) => ({ key: keyPattern(key), type: String(types[index] ?? ""), sizeBytes })),
  };
}

const patternMaxLength = 80;
/** A word that a programmer chose: letters, dashes and dots, of limited length. */
const word = /^[A-Za-z][A-Za-z_.-]{0,31}$/;

/** The pattern of a key without ids: `session:5f2c…` → `session:{id}`. Keys are user data; patterns are not. */
function keyPattern(key: string): string {
  const parts = key.slice(0, 512).split(/([:/|#{}])/);
  const pattern = parts.map((part, index) => (index % 2 === 1 || part === "" || word.test(part) ? part : "{id}")).join("");
  return redactShapes(pattern).slice(0, patternMaxLength);
}
