/** Services whose programs send by OpenTelemetry's SDK, by the spans that arrived lately. */

import type { AgentStore } from "../../store/agent/index.ts";

const windowMs = 3_600_000;
/** Newest first; an hour of a busy host is merged into fewer. */
const maxSegments = 500;

/** Service name → `OpenTelemetry (spans)`. Log records prove nothing: they are also read from files. */
export async function readSdkSenders(store: Pick<AgentStore, "query" | "segments">, nowMs: number): Promise<ReadonlyMap<string, string>> {
  // Without segments there is no table of them either.
  if (!store.segments) return new Map();
  const rows = await store.query(
    `SELECT DISTINCT services FROM (SELECT services FROM segment.manifest
     WHERE signal = 'span' AND state = 'stored' AND services IS NOT NULL AND max_time >= ? ORDER BY number DESC LIMIT ${maxSegments})`,
    [(nowMs - windowMs) * 1_000],
  );
  const services = rows.flatMap((row) => JSON.parse(String(row["services"])) as string[]);
  return new Map(services.map((service) => [service, "OpenTelemetry (spans)"]));
}
