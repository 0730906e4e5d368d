/** Evidence of recent diagnoses by id, so that an id in a ticket still resolves after a restart. */

import type { EvidenceFact } from "../../model/diagnosis.ts";
import type { ColonyStore } from "./colony-store.ts";

/** Limit on stored evidence; the oldest are deleted. */
const maxKept = 2_000;

const ensured = new WeakMap<ColonyStore, Promise<void>>();

function ensureTable(store: ColonyStore): Promise<void> {
  const known = ensured.get(store);
  if (known) return known;
  const made = store.write(async (transaction) => {
    await transaction.run(
      "CREATE TABLE IF NOT EXISTS registry.evidence (id VARCHAR NOT NULL, kept_at TIMESTAMP NOT NULL, fact JSON NOT NULL)",
    );
  });
  ensured.set(store, made);
  // Retried with the next diagnosis: a full disk may have space by then.
  made.catch(() => ensured.delete(store));
  return made;
}

/** Replaces evidence with the same id. */
export async function storeEvidence(store: ColonyStore, facts: readonly EvidenceFact[], nowMs: number): Promise<void> {
  if (facts.length === 0) return;
  await ensureTable(store);
  await store.write(async (transaction) => {
    const ids = facts.map(({ id }) => id);
    await transaction.run(`DELETE FROM registry.evidence WHERE id IN (${ids.map(() => "?").join(", ")})`, ids);
    await transaction.run(
      `INSERT INTO registry.evidence VALUES ${facts.map(() => "(?, make_timestamp(?), ?)").join(", ")}`,
      facts.flatMap((fact) => [fact.id, Math.floor(nowMs * 1_000), JSON.stringify(fact)]),
    );
    await transaction.run(
      `DELETE FROM registry.evidence WHERE rowid NOT IN (SELECT rowid FROM registry.evidence ORDER BY kept_at DESC, rowid DESC LIMIT ${maxKept})`,
    );
  });
}

export async function findEvidence(store: ColonyStore, id: string): Promise<EvidenceFact | undefined> {
  await ensureTable(store);
  const [row] = await store.query("SELECT fact FROM registry.evidence WHERE id = ? ORDER BY kept_at DESC LIMIT 1", [id]);
  return row === undefined ? undefined : (JSON.parse(String(row["fact"])) as EvidenceFact);
}
