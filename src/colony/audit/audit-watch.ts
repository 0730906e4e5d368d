/**
 * Detects tampering with agents' audits: pulled entries that do not follow the earlier ones, and chains that were truncated or rewritten. Each finding
 * is an event; `coral audit verify` gives the details.
 */

import { createClient } from "@connectrpc/connect";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import { AgentService } from "../../proto/coral/agent/v1/agent_pb.ts";
import { CopyCheck, copiedLinks } from "../../store/audit/index.ts";
import { type ColonyStore, recordEvent } from "../../store/colony/index.ts";
import { audit } from "../../store/signals/index.ts";
import { fromConnectError } from "../../transport/index.ts";
import type { AgentEntry, AgentRegistry } from "../registry/agent-registry.ts";

export interface AuditWatchOptions {
  store: ColonyStore;
  registry: Pick<AgentRegistry, "entries">;
  clock: Clock;
  log: Logger;
}

const verifyTimeoutMs = 10_000;
const atOnce = 8;
/** Findings remembered so that each is reported once; beyond this all are forgotten. */
const maxReported = 10_000;

export class AuditWatch {
  readonly #options: AuditWatchOptions;
  readonly #copies: CopyCheck;
  readonly #reported = new Set<string>();

  constructor(options: AuditWatchOptions) {
    this.#options = options;
    this.#copies = new CopyCheck(options.store);
  }

  /** Checks the entries that were pulled since the last call. */
  async checkPulled(): Promise<void> {
    for (const { agentId, chainId, problems } of await this.#copies.round()) {
      const [first] = problems;
      if (first) await this.#report(agentId, chainId, first.entry, problems.map(({ message }) => message).join("; "));
    }
  }

  /** Compares the last pulled entry of each connected agent with the agent's own. */
  async checkAgents(signal: AbortSignal): Promise<void> {
    const left = [...this.#options.registry.entries()].filter(({ session, record }) => session?.tunnel && !record.revokedAt);
    const worker = async (): Promise<void> => {
      for (let entry = left.shift(); entry !== undefined; entry = left.shift()) await this.#checkAgent(entry, signal);
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
  }

  async #checkAgent({ record: { agentId }, session }: AgentEntry, signal: AbortSignal): Promise<void> {
    const { store, log } = this.#options;
    const { epoch, afterSeq } = store.checkpoints(agentId);
    const last = afterSeq.get(audit.name) ?? 0;
    if (!session?.tunnel || epoch === undefined || last === 0) return;
    const [ours] = await copiedLinks(store, epoch, [last]);
    if (!ours) return;
    try {
      const client = createClient(AgentService, session.tunnel.transport);
      const answer = await client.verifyAudit({ entries: [BigInt(last)] }, { signal, timeoutMs: verifyTimeoutMs });
      if (answer.head?.chainId !== epoch) return;
      const theirLast = Number(answer.head.entry);
      const [theirs] = answer.links;
      if (theirLast < last)
        await this.#report(agentId, epoch, theirLast + 1, `the chain ends at entry ${theirLast}, but entry ${last} was already pulled`);
      else if (theirs && theirs.hash !== ours.hash)
        await this.#report(agentId, epoch, last, `entry ${last} was changed after it was pulled`);
    } catch (error) {
      // Silent and outdated agents are reported elsewhere.
      log.debug(`Cannot verify the audit of agent ${agentId}: ${fromConnectError(error).message}`);
    }
  }

  async #report(agentId: string, chainId: string, entry: number, what: string): Promise<void> {
    const key = `${chainId} ${entry}`;
    if (this.#reported.has(key)) return;
    if (this.#reported.size >= maxReported) this.#reported.clear();
    this.#reported.add(key);
    const { store, clock, log } = this.#options;
    const message = `The audit of agent ${agentId} was tampered with or damaged: ${what.slice(0, 500)}; run coral audit verify`;
    log.error(message, { agentId, chainId, entry });
    await recordEvent(store, {
      at: Math.round(clock.wallMs() * 1_000),
      kind: "audit-broken",
      agentId,
      message,
      details: { chainId, entry },
    });
  }
}
