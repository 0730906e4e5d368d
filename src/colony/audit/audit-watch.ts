/**
 * Notices by itself when an agent's audit is not what it was: entries that do not follow those pulled before, a chain that has become shorter or says
 * something else. What it finds is an event; `coral audit verify` looks closer.
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

const askTimeoutMs = 10_000;
const atOnce = 8;
/** What was told is not told again, as long as so many are remembered. */
const maxTold = 10_000;

export class AuditWatch {
  readonly #options: AuditWatchOptions;
  readonly #copies: CopyCheck;
  readonly #told = new Set<string>();

  constructor(options: AuditWatchOptions) {
    this.#options = options;
    this.#copies = new CopyCheck(options.store);
  }

  /** Looks at what was pulled since the last call. */
  async checkPulled(): Promise<void> {
    for (const { agentId, chainId, problems } of await this.#copies.round()) {
      const [first] = problems;
      if (first) await this.#tell(agentId, chainId, first.entry, problems.map(({ message }) => message).join("; "));
    }
  }

  /** Asks each connected agent for the hash of the last entry that was pulled of it. */
  async askAgents(signal: AbortSignal): Promise<void> {
    const left = [...this.#options.registry.entries()].filter(({ session, record }) => session?.tunnel && !record.revokedAt);
    const worker = async (): Promise<void> => {
      for (let entry = left.shift(); entry !== undefined; entry = left.shift()) await this.#ask(entry, signal);
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
  }

  async #ask({ record: { agentId }, session }: AgentEntry, signal: AbortSignal): Promise<void> {
    const { store, log } = this.#options;
    const { epoch, afterSeq } = store.checkpoints(agentId);
    const last = afterSeq.get(audit.name) ?? 0;
    if (!session?.tunnel || epoch === undefined || last === 0) return;
    const [ours] = await copiedLinks(store, epoch, [last]);
    if (!ours) return;
    try {
      const client = createClient(AgentService, session.tunnel.transport);
      const said = await client.verifyAudit({ entries: [BigInt(last)] }, { signal, timeoutMs: askTimeoutMs });
      if (said.head?.chainId !== epoch) return;
      const theirLast = Number(said.head.entry);
      const [theirs] = said.links;
      if (theirLast < last)
        await this.#tell(agentId, epoch, theirLast + 1, `it ends with entry ${theirLast}, and entry ${last} was pulled before`);
      else if (theirs && theirs.hash !== ours.hash)
        await this.#tell(agentId, epoch, last, `entry ${last} says something else than when it was pulled`);
    } catch (error) {
      // Silent and old agents are told of elsewhere.
      log.debug(`Cannot ask agent ${agentId} about its audit: ${fromConnectError(error).message}`);
    }
  }

  async #tell(agentId: string, chainId: string, entry: number, what: string): Promise<void> {
    const key = `${chainId} ${entry}`;
    if (this.#told.has(key)) return;
    if (this.#told.size >= maxTold) this.#told.clear();
    this.#told.add(key);
    const { store, clock, log } = this.#options;
    const message = `The audit of agent ${agentId} is not whole: ${what.slice(0, 500)}; see coral audit verify`;
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
