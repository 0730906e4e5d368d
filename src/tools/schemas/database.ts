import * as z from "zod";
import { databaseEngines } from "../../model/database-facts.ts";

const lock = z.object({
  holder: z.object({
    pid: z.number(),
    user: z.string(),
    application: z.string(),
    clientAddress: z.string().nullable(),
    clientPort: z.number().nullable(),
    service: z.string().nullable().describe("who holds the lock"),
    state: z.string().nullable(),
    statement: z.string().nullable(),
    openSeconds: z.number().nullable(),
  }),
  waiting: z.number(),
  longestSeconds: z.number(),
  waitingStatement: z.string().nullable(),
  table: z.string().nullable(),
});

const plan = z.object({
  statement: z.string(),
  scans: z.array(
    z.object({ table: z.string(), rows: z.number(), columns: z.array(z.string()), advice: z.string().nullable().describe("CREATE INDEX") }),
  ),
  indexes: z.array(z.string()),
  cost: z.number().nullable(),
});

const table = z.object({
  table: z.string(),
  rows: z.number(),
  deadRows: z.number().nullable(),
  sequentialScans: z.number().nullable(),
  indexScans: z.number().nullable(),
  sizeBytes: z.number().nullable(),
  indexes: z.array(z.string()),
  lastAnalyzed: z.string().nullable(),
});

const cache = z.object({
  usedBytes: z.number(),
  maxBytes: z.number().describe("0: unlimited"),
  policy: z.string(),
  evictedKeys: z.number(),
  evictedPerSecond: z.number(),
  blockedClients: z.number(),
  keys: z.number(),
  keysSampled: z.number(),
  bigKeys: z.array(z.object({ key: z.string(), type: z.string(), sizeBytes: z.number() })),
  slowCommands: z.array(z.object({ command: z.string(), durationUs: z.number(), at: z.string() })),
});

const database = z.object({
  agentId: z.string(),
  port: z.number(),
  readAt: z.iso.datetime(),
  engine: z.enum(databaseEngines),
  version: z.string(),
  user: z.string(),
  database: z.string(),
  canWrite: z.boolean().nullable().describe("whether the account could write; Coral never writes"),
  findings: z.array(
    z.object({
      kind: z.string(),
      pointer: z.string(),
      statement: z.string(),
      fix: z.string(),
      figure: z.object({ name: z.string(), unit: z.string(), value: z.number() }),
    }),
  ),
  connections: z.object({ open: z.number(), active: z.number(), idleInTransaction: z.number(), max: z.number().nullable() }).nullable(),
  clients: z.array(
    z.object({
      client: z.string(),
      address: z.string().nullable(),
      open: z.number(),
      active: z.number(),
      idleInTransaction: z.number(),
    }),
  ),
  locks: z.array(lock),
  plan: plan.nullable(),
  tables: z.array(table),
  statements: z.array(z.object({ statement: z.string(), calls: z.number(), totalMs: z.number(), meanMs: z.number(), rows: z.number() })),
  cache: cache.nullable(),
  notes: z.array(z.string()).describe("what could not be read, and what would allow it"),
});

export const databaseListSchema = z.object({ service: z.string(), databases: z.array(database) });
export type DatabaseList = z.infer<typeof databaseListSchema>;
