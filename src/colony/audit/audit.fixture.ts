/** Test fixture: a colony's store with an audit, and in-memory agents. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRouterTransport, type ServiceImpl } from "@connectrpc/connect";
import type { Clock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import { AgentService } from "../../proto/coral/agent/v1/agent_pb.ts";
import { type AgentStore, openAgentStore } from "../../store/agent/index.ts";
import { openColonyAudit } from "../../store/audit/index.ts";
import { openColonyStore } from "../../store/colony/index.ts";
import { openEngine } from "../../store/engine/index.ts";
import {
  type AuditEntry,
  audit,
  blankAuditEntry,
  type ChainLink,
  chainStart,
  linkAuditEntry,
  type Signal,
} from "../../store/signals/index.ts";
import type { AgentRegistry } from "../registry/agent-registry.ts";
import { AuditRecorder } from "./audit-recorder.ts";

export class SteppedClock implements Clock {
  nowMs = Date.UTC(2026, 0, 1);
  wallMs = (): number => this.nowMs;
  monotonicMs = (): number => this.nowMs;
}

export async function openAuditWorld() {
  const directory = mkdtempSync(join(tmpdir(), "coral-colony-audit-"));
  const engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 256 * 1024 * 1024, threads: 2, log: silentLogger });
  const clock = new SteppedClock();
  const shared = { signals: [audit] as unknown as Signal[], maxBytes: 1024 ** 3, clock, log: silentLogger };
  const store = await openColonyStore(engine, { file: join(directory, "colony.duckdb"), ...shared });
  const agent = await openAgentStore(engine, { file: join(directory, "agent.duckdb"), ...shared });
  const chain = await openColonyAudit(store, { maxAgeMs: 1e12, maxRows: 1_000_000, clock });
  const journalFile = join(directory, "audit-journal.jsonl");
  let recorder = await AuditRecorder.open({ chain, journalFile, clock, log: silentLogger }, store);
  return {
    clock,
    store,
    agent,
    chain,
    /** Closes the recorder and opens it again, as a restarted colony does. */
    reopen: async (): Promise<AuditRecorder> => {
      await recorder.close();
      recorder = await AuditRecorder.open({ chain, journalFile, clock, log: silentLogger }, store);
      return recorder;
    },
    recorder,
    entries: async () => {
      await recorder.settled();
      return store.query('SELECT * FROM "colony".audit.entries ORDER BY seq');
    },
    ...writerOf(agent, clock),
    pull: async () => {
      const after = store.checkpoints("web-1", agent.epoch).afterSeq.get("audit") ?? 0;
      const slice = await agent.readAfter("audit", after, { maxBytes: 1e6, maxRows: 10_000 });
      await store.applyPulls([{ agentId: "web-1", epoch: agent.epoch, slices: [slice], losses: [] }]);
    },
    [Symbol.asyncDispose]: async () => {
      await recorder.close();
      await agent.close();
      await store.close();
      await engine.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

function writerOf(agent: AgentStore, clock: Clock) {
  let link: ChainLink = chainStart(agent.epoch);
  const entryOf = (more: Partial<AuditEntry>): AuditEntry => ({ ...blankAuditEntry(clock.wallMs() * 1_000, 0), ...more });
  return {
    /** Appends at the agent, as its own audit log does. */
    write: async (...entries: Partial<AuditEntry>[]): Promise<void> => {
      for (const entry of entries) {
        const row = linkAuditEntry(link, entryOf(entry));
        await agent.append(audit, [row]);
        link = { entry: row.entry, hash: row.hash };
      }
    },
    /** Rewrites an entry and all hashes after it, as an attacker with access to the agent's file can. */
    rewrite: async (first: number, command: string): Promise<void> => {
      let last = chainStart(agent.epoch);
      for (const { time, seq: _seq, prev_hash: _prev, hash: _hash, ...row } of await agent.query("SELECT * FROM audit ORDER BY seq")) {
        const text = Number(row["entry"]) === first ? command : String(row["command"]);
        const linked = linkAuditEntry(last, { ...row, at: Number(time), command: text } as unknown as AuditEntry);
        const values = [text, linked.prev_hash, linked.hash, linked.entry];
        await agent.query("UPDATE audit SET command = ?, prev_hash = ?, hash = ? WHERE seq = ?", values);
        last = { entry: linked.entry, hash: linked.hash };
      }
      link = last;
    },
  };
}

/** A registry of agents with in-memory services; null: known but not connected. */
export function registryOf(
  agents: Record<string, Partial<ServiceImpl<typeof AgentService>> | null>,
): Pick<AgentRegistry, "find" | "entries"> {
  const entries = new Map(
    Object.entries(agents).map(([agentId, service]) => {
      const transport = createRouterTransport((router) => router.service(AgentService, service ?? {}));
      const session = service ? { tunnel: { transport, closed: new Promise(() => undefined) } } : undefined;
      return [agentId, { record: { agentId, hostname: `${agentId}.host`, revokedAt: null }, ...(session ? { session } : {}) }];
    }),
  );
  return { find: (id: string) => entries.get(id), entries: () => entries.values() } as unknown as Pick<AgentRegistry, "find" | "entries">;
}
