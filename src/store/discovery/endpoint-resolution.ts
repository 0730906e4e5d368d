/** Stores names of external addresses. The colony resolves them elsewhere. */

import type { SqlParameter } from "../engine/sql-values.ts";
import { numberIn, numberOrNullIn, textIn, textOrNullIn, type WritableStore } from "../tables/queryable.ts";
import type { NamingLimits } from "./naming-limits.ts";

export interface ResolvedEndpoint {
  address: string;
  /** Null: the address has no name. */
  name: string | null;
  /** `saas`, `reverse_dns`, `provider_range`. */
  method: string | null;
  provider: string | null;
  product: string | null;
  region: string | null;
  /** 0..1 */
  confidence: number;
  resolvedAtMs: number;
  expiresAtMs: number;
}

/** An address to resolve. */
export interface NamelessAddress {
  address: string;
  /** The most permissive limits of the agents that see it, with the shortest cache time; null when none sets any. */
  limits: NamingLimits | null;
}

/** Limit on returned addresses, most recently seen first. */
const addressesMax = 10_000;
const namesMax = 50_000;
const rowsPerStatement = 200;
const yearMs = 366 * 86_400_000;

/** Peers of unpaired connections, and endpoints in use, whose name is unknown or expired. */
export async function addressesWithoutName(store: WritableStore, nowMs: number): Promise<NamelessAddress[]> {
  const rows = await store.query(
    `WITH used AS (
       SELECT CASE WHEN role = 'client' THEN server_address ELSE client_address END AS address, agent_id, last_seen FROM net.connection_sides
       WHERE pairing = '' AND service <> '' AND NOT is_local
       UNION ALL
       SELECT n.ip_address, e.agent_id, n.last_seen FROM net.network_endpoints n LEFT JOIN net.service_endpoints e ON e.endpoint_id = n.id
       WHERE n.last_seen > make_timestamp($recent)
     )
     SELECT used.address, bool_or(coalesce(w.reverse_dns, true)) AS reverse_dns, bool_or(coalesce(w.provider_ranges, true)) AS provider_ranges,
       min(w.max_cache_ms) AS max_cache_ms
     FROM used LEFT JOIN net.naming_wishes w ON w.agent_id = used.agent_id LEFT JOIN net.endpoint_resolution r ON r.ip_address = used.address AND r.expires_at > make_timestamp($now)
     ANTI JOIN net.service_addresses a ON a.address = used.address
     WHERE r.ip_address IS NULL AND used.address NOT IN ('*', '')
     GROUP BY used.address ORDER BY max(used.last_seen) DESC, used.address LIMIT ${addressesMax}`,
    { now: Math.floor(nowMs * 1_000), recent: Math.floor((nowMs - 86_400_000) * 1_000) },
  );
  return rows.map((row) => {
    const limits = {
      reverseDns: row["reverse_dns"] === true,
      providerRanges: row["provider_ranges"] === true,
      maxCacheMs: numberOrNullIn(row, "max_cache_ms"),
    };
    const isFree = limits.reverseDns && limits.providerRanges && limits.maxCacheMs === null;
    return { address: textIn(row, "address"), limits: isFree ? null : limits };
  });
}

/** Replaces what is stored for the same addresses. */
export async function storeEndpointNames(store: WritableStore, names: readonly ResolvedEndpoint[]): Promise<void> {
  if (names.length === 0) return;
  await store.write(async (transaction) => {
    for (let start = 0; start < names.length; start += rowsPerStatement) {
      const part = names.slice(start, start + rowsPerStatement);
      await transaction.run(
        `INSERT OR REPLACE INTO net.endpoint_resolution
           (ip_address, resolved_name, resolution_method, provider, product, region, confidence, resolved_at, expires_at)
         VALUES ${part.map(() => "(?, ?, ?, ?, ?, ?, ?, make_timestamp(?), make_timestamp(?))").join(", ")}`,
        part.flatMap((name): SqlParameter[] => [
          name.address,
          name.name,
          name.method,
          name.provider,
          name.product,
          name.region,
          name.confidence,
          Math.floor(name.resolvedAtMs * 1_000),
          Math.floor(Math.min(name.expiresAtMs, name.resolvedAtMs + yearMs) * 1_000),
        ]),
      );
    }
  });
}

/** Most recently resolved first, at most 50,000. */
export async function loadEndpointNames(store: WritableStore): Promise<ResolvedEndpoint[]> {
  const rows = await store.query(`SELECT * FROM net.endpoint_resolution ORDER BY resolved_at DESC LIMIT ${namesMax}`);
  return rows.map((row) => ({
    address: textIn(row, "ip_address"),
    name: textOrNullIn(row, "resolved_name"),
    method: textOrNullIn(row, "resolution_method"),
    provider: textOrNullIn(row, "provider"),
    product: textOrNullIn(row, "product"),
    region: textOrNullIn(row, "region"),
    confidence: numberIn(row, "confidence"),
    resolvedAtMs: numberIn(row, "resolved_at") / 1_000,
    expiresAtMs: numberIn(row, "expires_at") / 1_000,
  }));
}
