/** Names of addresses outside, as they were found: the colony asks for them elsewhere and keeps them here. */

import type { ColonyStore } from "../colony-store.ts";
import type { SqlParameter } from "../sql-values.ts";

export interface ResolvedEndpoint {
  address: string;
  name: string;
  method: string;
  provider: string | null;
  product: string | null;
  confidence: number;
  expiresAtMs: number;
}

/** Asked for at once; the rest has its turn later. */
const askMax = 2_000;
const rowsPerStatement = 200;

/** Addresses at the other end of unpaired connections, and endpoints in use, whose name is not known or no longer fresh. */
export async function addressesWithoutName(store: ColonyStore, nowMs: number): Promise<string[]> {
  const rows = await store.query(
    `WITH used AS (
       SELECT CASE WHEN role = 'client' THEN server_address ELSE client_address END AS address, last_seen FROM net.connection_sides
       WHERE pairing = '' AND service <> '' AND NOT is_local
       UNION ALL
       SELECT ip_address, last_seen FROM net.network_endpoints WHERE last_seen > make_timestamp($recent)
     )
     SELECT address FROM used LEFT JOIN net.endpoint_resolution r ON r.ip_address = address AND r.expires_at > make_timestamp($now)
     WHERE r.ip_address IS NULL AND address NOT IN ('*', '') AND address NOT IN (SELECT address FROM net.service_addresses)
     GROUP BY address ORDER BY max(last_seen) DESC, address LIMIT ${askMax}`,
    { now: Math.floor(nowMs * 1_000), recent: Math.floor((nowMs - 86_400_000) * 1_000) },
  );
  return rows.map((row) => String(row["address"]));
}

export async function storeEndpointNames(store: ColonyStore, names: readonly ResolvedEndpoint[], nowMs: number): Promise<void> {
  if (names.length === 0) return;
  const nowUs = Math.floor(nowMs * 1_000);
  await store.write(async (transaction) => {
    for (let start = 0; start < names.length; start += rowsPerStatement) {
      const part = names.slice(start, start + rowsPerStatement);
      await transaction.run(
        `INSERT INTO net.endpoint_resolution (ip_address, resolved_name, resolution_method, provider, product, confidence, resolved_at, expires_at)
         VALUES ${part.map(() => `(?, ?, ?, ?, ?, ?, make_timestamp(${nowUs}), make_timestamp(?))`).join(", ")}
         ON CONFLICT (ip_address) DO UPDATE SET resolved_name = excluded.resolved_name, resolution_method = excluded.resolution_method,
           provider = excluded.provider, product = excluded.product, confidence = excluded.confidence, resolved_at = excluded.resolved_at,
           expires_at = excluded.expires_at`,
        part.flatMap(({ address, name, method, provider, product, confidence, expiresAtMs }): SqlParameter[] => [
          address,
          name,
          method,
          provider,
          product,
          confidence,
          Math.floor(Math.min(expiresAtMs, nowMs + 366 * 86_400_000) * 1_000),
        ]),
      );
    }
  });
}
