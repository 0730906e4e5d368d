import type { ColonyStore } from "../colony/colony-store.ts";
import { audit, auditChainColumns, auditChainRow } from "../signals/audit.ts";
import { ChainCheck, type ChainLink, type ChainProblem, chainStart } from "../signals/hash-chain.ts";

/** Problems of newly pulled entries. */
export interface CopyProblems {
  agentId: string;
  chainId: string;
  problems: ChainProblem[];
}

/** Verifies the copies of agents' chains incrementally: each round checks the entries that arrived since the last one. */
export class CopyCheck {
  readonly #store: ColonyStore;
  readonly #ends = new Map<number, ChainLink>();
  #ingest: number | undefined;

  constructor(store: ColonyStore) {
    this.#store = store;
  }

  /** The first round only records where the chains end. */
  async round(): Promise<CopyProblems[]> {
    const database = `"${this.#store.database.name}"`;
    const table = `${database}.raw."${audit.name}"`;
    if (this.#ingest === undefined) {
      const ends = await this.#store.query(
        `SELECT source, arg_max(entry, seq) AS entry, arg_max(hash, seq) AS hash, max(ingest) AS ingest FROM ${table} GROUP BY source`,
      );
      for (const end of ends) this.#ends.set(Number(end["source"]), { entry: Number(end["entry"]), hash: String(end["hash"]) });
      this.#ingest = Math.max(0, ...ends.map((end) => Number(end["ingest"])));
      return [];
    }
    if (this.#store.lastIngestOf(audit) <= this.#ingest) return [];
    const checks = new Map<number, { agentId: string; chainId: string; check: ChainCheck }>();
    const sql = `SELECT source, ingest, agent_id, epoch, ${auditChainColumns} FROM ${table} JOIN ${database}.internal.sources USING (source)
       WHERE ingest > ? ORDER BY ingest, source, seq`;
    await this.#store.visit(sql, [this.#ingest], (row) => {
      const source = Number(row["source"]);
      const [agentId, chainId] = [String(row["agent_id"]), String(row["epoch"])];
      const entry = auditChainRow(row);
      const known = checks.get(source) ?? { agentId, chainId, check: new ChainCheck(this.#ends.get(source) ?? chainStart(chainId)) };
      known.check.add(entry);
      checks.set(source, known);
      this.#ends.set(source, { entry: entry.entry, hash: entry.hash });
      this.#ingest = Number(row["ingest"]);
    });
    return [...checks.values()]
      .map(({ agentId, chainId, check }) => ({ agentId, chainId, problems: check.finish().problems }))
      .filter(({ problems }) => problems.length > 0);
  }
}
