/** Faults of databases: missing indexes, held locks, busy servers, and exhausted memory. */

import { type ChildProcess, spawn } from "node:child_process";
import type { LiveFault } from "../live-fault.ts";
import type { LiveWorld } from "../live-world.ts";

const sessions = new WeakMap<LiveWorld, ChildProcess>();

function startSession(world: LiveWorld, file: string, args: readonly string[], input: string): void {
  const child = spawn(file, args, { stdio: ["pipe", "ignore", "ignore"] });
  child.stdin.write(input);
  sessions.set(world, child);
}

function endSession(world: LiveWorld): void {
  sessions.get(world)?.kill("SIGKILL");
  sessions.delete(world);
}

export const storeFaults: readonly LiveFault[] = [
  {
    name: "an index is gone",
    kind: "missing-index",
    service: "postgres",
    pointers: ["SELECT orders", "FROM orders"],
    inject: (world) => void world.psql("DROP INDEX orders_user"),
    repair: (world) => void world.psql("CREATE INDEX orders_user ON orders (user_id)"),
  },
  {
    name: "a session holds locks",
    kind: "lock-holder",
    service: "postgres",
    pointers: ["UPDATE stock"],
    inject: (world) => startSession(world, "psql", world.psqlArgs, "BEGIN; UPDATE stock SET units = units; SELECT pg_sleep(600);\n"),
    repair: (world) => {
      endSession(world);
      world.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()");
    },
  },
  {
    name: "a cache that is kept busy",
    kind: "slow-store",
    service: "redis",
    pointers: ["GET", "SET", "LPUSH"],
    inject: (world) => {
      const script =
        "local t = redis.call('TIME'); local e = t[1] * 1000000 + t[2] + 60000; repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] > e";
      startSession(world, "redis-cli", ["-p", String(world.ports.redis), "-r", "-1", "-i", "0.1", "EVAL", script, "0"], "");
    },
    repair: endSession,
  },
  {
    name: "a cache without memory left",
    kind: "full-store",
    service: "redis",
    pointers: ["SET", "LPUSH"],
    inject: (world) => void world.redis("CONFIG", "SET", "maxmemory", "1"),
    repair: (world) => void world.redis("CONFIG", "SET", "maxmemory", "0"),
  },
];
