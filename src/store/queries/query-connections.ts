/** Connections of services: open, opened, closed and failed counts, traffic and round-trip times. */

import type { ConnectionRow, ConnectionsFacts, ConnectionsRequest } from "../../model/connections.ts";
import type { Resolved } from "../../model/services.ts";
import { classifySql } from "../discovery/classify-edges.ts";
import { failures } from "../discovery/discovery-settings.ts";
import { isoTimeIn, numberIn, numberOrNullIn, type Queryable, textIn } from "../tables/queryable.ts";
import { partsSql, windowStartMs } from "./query-edges.ts";
import { namedFilter } from "./service-filter.ts";

export interface ConnectionsQuery extends Resolved<ConnectionsRequest> {
  nowMs: number;
  /** The name under which the colony's database is attached. */
  database: string;
}

/** Each end counts separately: a connection seen at both ends is in a row of the client and in one of the server. */
export async function queryConnections(store: Queryable, query: ConnectionsQuery): Promise<ConnectionsFacts> {
  const startUs = Math.floor(windowStartMs(query.nowMs, query.sinceMs) * 1_000);
  const parts = partsSql(query.database, startUs, Math.floor(query.nowMs * 1_000), query.agentIds);
  const service = query.service === undefined ? undefined : namedFilter(query.service);
  const peer = query.peer === undefined ? undefined : namedFilter(query.peer, "peer");
  const filters = [
    service === undefined ? "" : `AND service IN (${service.list})`,
    query.role === undefined ? "" : "AND role = $role",
    peer === undefined ? "" : `AND (peer IN (${peer.list}) OR peer_address IN (${peer.list}))`,
  ].join(" ");
  const parameters = {
    ...service?.parameters,
    ...(query.role === undefined ? {} : { role: query.role }),
    ...peer?.parameters,
  };
  const rows = await store.query(
    `WITH judged AS (${classifySql(query.database, parts, true)}),
     kind AS (
       SELECT j.service, j.role, j.protocol, coalesce(r.resolved_name, j.peer_name) AS peer, j.peer_address, j.server_port,
         sum(j.open)::DOUBLE AS open, sum(j.opened)::DOUBLE AS opened, sum(greatest(j.closed, 0))::DOUBLE AS closed, sum(j.bytes_out)::DOUBLE AS bytes_out,
         sum(j.bytes_in)::DOUBLE AS bytes_in, sum(j.rtt_sum)::DOUBLE AS rtt_sum, sum(j.rtt_count)::DOUBLE AS rtt_count, sum(j.retransmits)::DOUBLE AS retransmits,
         ${failures.map((name) => `sum(j.${name})::DOUBLE AS ${name}`).join(", ")}, max(j.last_seen) AS last_seen
       FROM judged j LEFT JOIN "${query.database}".net.endpoint_resolution r ON j.peer_kind = 'external' AND r.ip_address = j.peer_address GROUP BY ALL
     )
     SELECT * REPLACE (server_port::DOUBLE AS server_port), count(*) OVER ()::DOUBLE AS total FROM kind
     WHERE true ${filters} ORDER BY opened + failures DESC, open DESC, service, peer, server_port LIMIT ${Math.max(0, Math.floor(query.limit))}`,
    parameters,
  );
  const [left = {}] = await store.query(
    `SELECT coalesce(sum(greatest(closed, 0) + open + failures), 0)::DOUBLE AS unattributed FROM (${parts}) WHERE service = ''`,
  );
  return {
    rows: rows.map((row) => {
      const rttCount = numberIn(row, "rtt_count");
      return {
        service: textIn(row, "service"),
        role: textIn(row, "role") as ConnectionRow["role"],
        protocol: textIn(row, "protocol"),
        peer: textIn(row, "peer"),
        peerAddress: textIn(row, "peer_address"),
        serverPort: numberIn(row, "server_port"),
        open: numberIn(row, "open"),
        opened: numberIn(row, "opened"),
        closed: numberIn(row, "closed"),
        failed: numberIn(row, "failures"),
        refused: numberIn(row, "refused"),
        reset: numberIn(row, "reset"),
        timedOut: numberIn(row, "timed_out"),
        bytesSent: numberIn(row, "bytes_out"),
        bytesReceived: numberIn(row, "bytes_in"),
        rttUs: rttCount > 0 ? Math.round(numberIn(row, "rtt_sum") / rttCount) : null,
        retransmits: numberOrNullIn(row, "retransmits"),
        lastSeenAt: isoTimeIn(row, "last_seen"),
      };
    }),
    total: numberIn(rows[0] ?? {}, "total"),
    unattributed: numberIn(left, "unattributed"),
  };
}
