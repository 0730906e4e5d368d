import type { Transaction } from "../engine/database.ts";
import type { Row, SqlParameter } from "../engine/sql-values.ts";
import type { Cursor, Source } from "../tables/pull-plan.ts";

const keyOf = (agentId: string, epoch: string): string => `${agentId} ${epoch}`;

/** Every epoch of every agent, in memory as of the last commit, and in table `internal.sources`. */
export class SourceRegistry {
  readonly #sources = new Map<string, Source>();
  readonly #latest = new Map<string, Source>();
  #next = 1;

  /** `rows` of internal.sources, in the order of their last pull. */
  constructor(rows: readonly Row[]) {
    for (const row of rows) {
      this.#put({
        source: Number(row["source"]),
        agentId: String(row["agent_id"]),
        epoch: String(row["epoch"]),
        cursors: new Map(Object.entries(JSON.parse(String(row["cursors"])) as Record<string, Cursor>)),
        losses: new Map(Object.entries(JSON.parse(String(row["losses"])) as Record<string, number>)),
      });
    }
  }

  find(agentId: string, epoch: string): Source | undefined {
    return this.#sources.get(keyOf(agentId, epoch));
  }

  /** The epoch of the agent's last response. */
  latest(agentId: string): Source | undefined {
    return this.#latest.get(agentId);
  }

  /** A working copy for planning changes; discarded unless committed. */
  stage(): StagedSources {
    return new StagedSources(this, this.#next);
  }

  commit(staged: StagedSources): void {
    for (const source of staged.changed()) this.#put(source);
    for (const source of staged.added()) this.#put(source, this.#latest.has(source.agentId));
  }

  forget(gone: (source: Source) => boolean): void {
    for (const [key, source] of this.#sources) {
      if (gone(source) && this.#latest.get(source.agentId) !== source) this.#sources.delete(key);
    }
  }

  latestNumbers(): number[] {
    return [...this.#latest.values()].map(({ source }) => source);
  }

  #put(source: Source, isOld = false): void {
    this.#sources.set(keyOf(source.agentId, source.epoch), source);
    if (!isOld) this.#latest.set(source.agentId, source);
    this.#next = Math.max(this.#next, source.source + 1);
  }
}

/** The registry as of the end of the current transaction. */
export class StagedSources {
  readonly #registry: SourceRegistry;
  readonly #changed = new Map<string, Source>();
  readonly #latest = new Map<string, Source>();
  readonly #created = new Set<number>();
  readonly #added = new Map<string, Source>();
  #next: number;

  constructor(registry: SourceRegistry, next: number) {
    this.#registry = registry;
    this.#next = next;
  }

  find(agentId: string, epoch: string): Source | undefined {
    return this.#changed.get(keyOf(agentId, epoch)) ?? this.#registry.find(agentId, epoch);
  }

  latest(agentId: string): Source | undefined {
    return this.#latest.get(agentId) ?? this.#registry.latest(agentId);
  }

  fresh(agentId: string, epoch: string): Source {
    return { source: this.#next, agentId, epoch, cursors: new Map(), losses: new Map() };
  }

  put(source: Source): void {
    if (source.source === this.#next) {
      this.#created.add(source.source);
      this.#next++;
    }
    this.#changed.set(keyOf(source.agentId, source.epoch), source);
    this.#latest.set(source.agentId, source);
  }

  /** The number of an epoch, which may have only segments. Does not make it the epoch of the agent's last response. */
  numberOf(agentId: string, epoch: string): number {
    const key = keyOf(agentId, epoch);
    const known = this.find(agentId, epoch) ?? this.#added.get(key);
    if (known) return known.source;
    const source = this.fresh(agentId, epoch);
    this.#next++;
    this.#added.set(key, source);
    return source.source;
  }

  added(): Source[] {
    return [...this.#added.values()];
  }

  changed(): Source[] {
    return [...this.#changed.values()];
  }

  async save(transaction: Transaction, nowUs: number): Promise<void> {
    const created = [...this.changed().filter(({ source }) => this.#created.has(source)), ...this.added()];
    const updated = this.changed().filter(({ source }) => !this.#created.has(source));
    for (const { source, agentId, epoch, ...rest } of created) {
      await transaction.run("INSERT INTO internal.sources VALUES (?, ?, ?, make_timestamp(?), make_timestamp(?), ?, ?)", [
        source,
        agentId,
        epoch,
        nowUs,
        nowUs,
        ...jsonOf(rest),
      ]);
    }
    if (updated.length === 0) return;
    const parameters = updated.flatMap(({ source, ...rest }): SqlParameter[] => [source, ...jsonOf(rest)]);
    await transaction.run(
      `UPDATE internal.sources SET last_pull = make_timestamp(${nowUs}), cursors = changed.cursors, losses = changed.losses
       FROM (VALUES ${updated.map(() => "(?, ?, ?)").join(", ")}) changed(source, cursors, losses)
       WHERE internal.sources.source = changed.source`,
      parameters,
    );
  }
}

function jsonOf({ cursors, losses }: Pick<Source, "cursors" | "losses">): [string, string] {
  return [JSON.stringify(Object.fromEntries(cursors)), JSON.stringify(Object.fromEntries(losses))];
}
