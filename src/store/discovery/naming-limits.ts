/**
 * Agents' limits on resolving names of external addresses. Stored across restarts: no lookup may happen before an agent has repeated its
 * refusal.
 */

import type { WritableStore } from "../tables/queryable.ts";

/** How an address may be resolved. */
export interface NamingLimits {
  /** False: no reverse DNS lookups. */
  reverseDns: boolean;
  /** False: do not match providers' address ranges. */
  providerRanges: boolean;
  /** Maximum cache time of a name; null for the colony's default. */
  maxCacheMs: number | null;
}

/** Replaces the agent's limits; null removes them. Names resolved under other limits are deleted. */
export async function storeNamingLimits(store: WritableStore, agentId: string, limits: NamingLimits | null): Promise<void> {
  await store.write(async (transaction) => {
    const [known] = await transaction.query("SELECT * FROM net.naming_wishes WHERE agent_id = ?", [agentId]);
    const before = known
      ? { reverseDns: known["reverse_dns"], providerRanges: known["provider_ranges"], maxCacheMs: asNumber(known["max_cache_ms"]) }
      : null;
    if (JSON.stringify(before) === JSON.stringify(limits)) return;
    await transaction.run("DELETE FROM net.naming_wishes WHERE agent_id = ?", [agentId]);
    if (limits) {
      const { reverseDns, providerRanges, maxCacheMs } = limits;
      await transaction.run("INSERT INTO net.naming_wishes VALUES (?, ?, ?, ?)", [agentId, reverseDns, providerRanges, maxCacheMs]);
    }
    await transaction.run(
      `DELETE FROM net.endpoint_resolution WHERE ip_address IN (
         SELECT n.ip_address FROM net.service_endpoints e JOIN net.network_endpoints n ON n.id = e.endpoint_id WHERE e.agent_id = $agent
         UNION SELECT unnest([client_address, server_address]) FROM net.connection_sides WHERE agent_id = $agent)`,
      { agent: agentId },
    );
  });
}

function asNumber(value: unknown): number | null {
  return value === null || value === undefined ? null : Number(value);
}
