import { describe, expect, it } from "vitest";
import type { DatabaseFacts, LockFact } from "../model/database-facts.ts";
import type { PoolTraffic, StatementTraffic } from "../model/database-traffic.ts";
import { databaseFindings } from "./database-findings.ts";
import type { Cause, Diagnosis } from "./diagnose.ts";
import { databaseCandidates, judgeDatabases } from "./judge-database.ts";

const cause = (more: Partial<Cause> = {}): Cause => ({
  service: "orders",
  kind: "slow",
  pointer: "GET /orders",
  score: 1,
  confidence: 0.8,
  evidence: [],
  chain: ["shop", "orders"],
  change: null,
  ...more,
});
const diagnosis = (first: Cause): Diagnosis => ({ causes: [first], ruledOut: [], nearest: null, services: 3 });

const figures = (meanUs: number, more: object = {}) => ({
  requests: 900,
  perSecond: 30,
  meanUs,
  failedRatio: 0,
  responseBytes: 2_048,
  ...more,
});
const statement = (text: string, beforeUs: number, afterUs: number, more: object = {}): StatementTraffic => ({
  service: "postgres",
  protocol: "postgres",
  port: 5432,
  statement: text,
  before: figures(beforeUs),
  after: figures(afterUs, more),
  failure: "",
});
const slow = statement("SELECT * FROM orders WHERE user_id = ?", 400, 52_000);
const pool = (more: Partial<PoolTraffic> = {}): PoolTraffic => ({
  caller: "orders",
  service: "postgres",
  port: 5432,
  openBefore: 2,
  openAfter: { least: 5, most: 5 },
  busyAfter: 0.4,
  meanUsBefore: 900,
  meanUsAfter: 950,
  ...more,
});

const lock: LockFact = {
  holder: {
    pid: 4_123,
    user: "app",
    application: "",
    clientAddress: "127.0.0.1",
    clientPort: 50_000,
    service: "batch",
    state: "idle in transaction",
    statement: "UPDATE orders SET state = ?",
    openSeconds: 35,
  },
  waiting: 4,
  longestSeconds: 30,
  waitingStatement: "UPDATE orders SET total = ? WHERE id = ?",
  table: "orders",
};
const facts = (more: Partial<DatabaseFacts> = {}): DatabaseFacts => ({
  engine: "postgres",
  version: "15",
  user: "coral",
  database: "shop",
  canWrite: false,
  connections: null,
  clients: [],
  locks: [],
  plan: null,
  tables: [],
  statements: [],
  cache: null,
  notes: [],
  ...more,
});
const known = (one: DatabaseFacts) => [{ service: "postgres", inspected: [{ agentId: "a", port: 5432, readAt: "", facts: one }] }];

function judged(first: Cause, more: { statements?: StatementTraffic[]; pools?: PoolTraffic[]; facts?: DatabaseFacts }): Cause | undefined {
  const { statements = [], pools = [] } = more;
  return judgeDatabases(diagnosis(first), { traffic: { statements, pools }, databases: more.facts ? known(more.facts) : [] }).causes[0];
}

describe("judgeDatabases()", () => {
  it("names the statement with most of the additional time", () => {
    const steady = statement("SELECT 1", 80_000, 82_000);
    const rare = statement("DELETE FROM carts", 100, 90_000, { requests: 2 });
    const found = judged(cause({ service: "postgres" }), { statements: [steady, slow, rare] });
    expect(found).toMatchObject({ kind: "slow-statement", pointer: slow.statement });
    expect(found?.evidence[0]?.statement).toBe("SELECT * FROM orders WHERE user_id = ? takes 52 ms, was 400 µs (130×); 30 /s, 2 KiB each");
  });

  it("names the missing index with its statement, and the fix", () => {
    const scans = [
      { table: "public.orders", rows: 234_891, columns: ["user_id"], advice: "CREATE INDEX CONCURRENTLY ON public.orders (user_id)" },
    ];
    const plan = { statement: slow.statement, scans, indexes: [], cost: 1 };
    const found = judged(cause({ service: "postgres", kind: "resource" }), { statements: [slow], facts: facts({ plan }) });
    expect(found).toMatchObject({ kind: "missing-index", pointer: "public.orders (user_id)" });
    expect(found?.evidence.map((one) => one.statement).join("\n")).toContain(
      "sequential scan of 234,891 rows, no index on public.orders.user_id: SELECT * FROM orders WHERE user_id = ?; fix: CREATE INDEX CONCURRENTLY ON public.orders (user_id)",
    );
  });

  it("reads a lock from the status of what fails, and shows the status of other failures", () => {
    const update = "UPDATE stock SET units = units - ? WHERE item = ?";
    const failing = (failure: string) => ({ ...statement(update, 1_300, 304_000, { failedRatio: 1, perSecond: 3.3 }), failure });
    const found = judged(cause({ service: "postgres", kind: "failing" }), { statements: [failing("55P03")] });
    expect(found).toMatchObject({ kind: "lock-wait", pointer: update });
    expect(found?.evidence[0]?.statement).toBe(
      `${update} fails in 100% with 55P03 (a lock was not granted in time, another transaction holds it), usual 0%; 3.3 /s, 2 KiB each`,
    );
    const other = judged(cause({ service: "postgres", kind: "failing" }), { statements: [failing("22012")] });
    expect(other).toMatchObject({ kind: "failing", pointer: update });
    expect(other?.evidence[0]?.statement).toContain("fails in 100% with 22012, usual 0%");
  });

  it("keeps a lock that was concluded from how the statement waits", () => {
    const update = statement("UPDATE stock SET units = ?", 1_000, 300_000);
    const [explained] = judged(cause({ service: "postgres" }), { statements: [slow] })?.evidence ?? [];
    const waits = { ...explained, kind: "lock-wait", pointer: update.statement, statement: "waits without using CPU" } as const;
    const first = cause({ service: "postgres", kind: "lock-wait", pointer: update.statement, evidence: [waits as never] });
    const found = judged(first, { statements: [update] });
    expect(found).toMatchObject({ kind: "lock-wait", pointer: update.statement });
    expect(found?.evidence.map((one) => one.statement)).toEqual([
      "waits without using CPU",
      "UPDATE stock SET units = ? takes 300 ms, was 1 ms (300×); 30 /s, 2 KiB each",
    ]);
  });

  it("follows a slow caller to the session that holds the lock", () => {
    const found = judged(cause(), { statements: [statement("SELECT 1", 100, 100)], pools: [pool()], facts: facts({ locks: [lock] }) });
    expect(found).toMatchObject({
      service: "postgres",
      kind: "lock-wait",
      pointer: "pid 4123 (batch)",
      chain: ["shop", "orders", "postgres"],
    });
    expect(found?.evidence[0]?.statement).toContain("4 sessions wait on orders up to 30 s for session 4123 of batch");
  });

  it("distinguishes an exhausted pool from a slow database", () => {
    expect(judged(cause(), { pools: [pool()] })).toMatchObject({
      kind: "pool-exhausted",
      pointer: "connection pool of orders to postgres (5)",
    });
    expect(judged(cause(), { pools: [pool({ openBefore: 5, busyAfter: 4.6 })] })).toMatchObject({ kind: "pool-exhausted" });
  });

  it.each([
    ["the database is slower", cause(), pool({ meanUsAfter: 4_000 })],
    ["connections come and go", cause(), pool({ openAfter: { least: 3, most: 5 } })],
    ["a constant number of connections is the only sign", cause(), pool({ openBefore: 5 })],
    ["the caller uses far more CPU", cause({ kind: "resource" }), pool()],
  ])("does not blame the pool when %s", (_, first, one) => {
    expect(judged(first, { pools: [one] })).toBe(first);
  });
});

describe("databaseCandidates()", () => {
  it("are databases on the path to a cause, and those that it uses", () => {
    expect(databaseCandidates(diagnosis(cause()), { statements: [slow], pools: [pool()] })).toEqual(["postgres"]);
    expect(databaseCandidates(diagnosis(cause()), { statements: [slow], pools: [] })).toEqual([]);
  });
});

describe("databaseFindings()", () => {
  it("reports evictions, and nothing for a quiet database", () => {
    const cache = {
      usedBytes: 3 * 1024 ** 2,
      maxBytes: 3 * 1024 ** 2,
      policy: "allkeys-lru",
      evictedKeys: 9_000,
      evictedPerSecond: 420,
      blockedClients: 0,
      keys: 4_000,
      keysSampled: 500,
      bigKeys: [],
      slowCommands: [],
    };
    expect(databaseFindings(facts({ engine: "redis", cache }))[0]).toMatchObject({
      kind: "evictions",
      statement: "420 keys/s are evicted: 3 MiB of 3 MiB used, policy allkeys-lru",
    });
    expect(databaseFindings(facts({ locks: [{ ...lock, longestSeconds: 0.2 }] }))).toEqual([]);
  });

  it.each([
    ["postgres", "let batch commit, or end session 4123: SELECT pg_terminate_backend(4123)"],
    ["mysql", "let batch commit, or end session 4123: KILL 4123"],
  ] as const)("terminates the session that holds a lock as %s does", (engine, fix) => {
    expect(databaseFindings(facts({ engine, locks: [lock] }))[0]?.fix).toBe(fix);
  });
});
