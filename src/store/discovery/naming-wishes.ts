/** What agents want of the names of addresses outside that they see. Kept over restarts: nobody may be asked before an agent has said no again. */

import type { WritableStore } from "../tables/queryable.ts";

/** How an address may be named. */
export interface NamingLimits {
  /** False: DNS is not asked. */
  reverseDns: boolean;
  /** False: it is not looked for in providers' ranges. */
  providerRanges: boolean;
  /** How long a name holds at most; null for as long as the colony says. */
  maxCacheMs: number | null;
}

/** Replaces what the agent said before; null when it wants nothing special. Names that were found under other wishes are forgotten. */
export async function storeNamingWish(store: WritableStore, agentId: string, wish: NamingLimits | null): Promise<void> {
  await store.write(async (transaction) => {
    const [known] = await transaction.query("SELECT * FROM net.naming_wishes WHERE agent_id = ?", [agentId]);
    const before = known
      ? { reverseDns: known["reverse_dns"], providerRanges: known["provider_ranges"], maxCacheMs: asNumber(known["max_cache_ms"]) }
      : null;
    if (JSON.stringify(before) === JSON.stringify(wish)) return;
    await transaction.run("DELETE FROM net.naming_wishes WHERE agent_id = ?", [agentId]);
    if (wish) {
      const { reverseDns, providerRanges, maxCacheMs } = wish;
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
