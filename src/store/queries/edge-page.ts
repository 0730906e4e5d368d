/**
 * Selects the part of the topology that one answer shows. DuckDB makes the selection: a colony can have tens of thousands of edges, and
 * reading rows only to count and drop them costs more than the rest of the query.
 */

import type { EdgePageFacts, EdgePageRequest, TopologyNodeFact } from "../../model/edges.ts";
import { numberIn, type QueryRow, textIn, textOrNullIn } from "../tables/queryable.ts";

const listMax = 5;
const linkKey = "from_node, to_node, protocol, server_port, class";

/**
 * Returns rows of three kinds, by `part`: `edge` with `edgeColumns`, `node`, and one `totals`. One statement computes edges once and reads
 * one snapshot. `explain` adds first-use facts to a relation of edges. The statement has no parameters, because preparing one would plan it
 * twice.
 */
export function edgePageSql(
  page: EdgePageRequest,
  sql: { database: string; edges: string; edgeColumns: string; explain: (edges: string) => string },
): string {
  const own = page.without === undefined ? "" : ` AND NOT (${isEnd("client", page.without)} OR ${isEnd("server", page.without)})`;
  const ofClass = page.class === undefined ? "" : ` AND class = '${page.class}'`;
  return `
  WITH named AS MATERIALIZED (
    SELECT *, client_kind || ':' || ${nameSql("client")} AS from_node, server_kind || ':' || ${nameSql("server")} AS to_node
    FROM (
      SELECT e.*, r.resolved_name, r.resolution_method, r.provider, r.product FROM (${sql.edges}) e
      LEFT JOIN "${sql.database}".net.endpoint_resolution r ON r.ip_address = CASE class WHEN 'INGRESS' THEN client WHEN 'EGRESS' THEN server END
    ) WHERE true${own}${ofClass}
  ),
  link AS MATERIALIZED (SELECT ${linkKey}, sum(connections) AS connections FROM named GROUP BY ALL),
  node AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY weight DESC, node) AS rank FROM (
      SELECT node, sum(connections) AS weight, bool_or(is_caller) AS calls, bool_or(NOT is_caller) AS is_called FROM (
        SELECT from_node AS node, connections, true AS is_caller FROM link
        UNION ALL SELECT to_node, CASE WHEN to_node = from_node THEN 0 ELSE connections END, false FROM link
      ) GROUP BY node
    )
  ),
  kept AS MATERIALIZED (SELECT node, rank FROM node WHERE rank <= ${page.nodes}),
  among AS MATERIALIZED (
    SELECT *, row_number() OVER (PARTITION BY class ORDER BY connections DESC, from_node, to_node, server_port, protocol) AS nth,
      count(*) OVER (PARTITION BY class) AS of_class
    FROM link SEMI JOIN kept f ON f.node = from_node SEMI JOIN kept t ON t.node = to_node
  ),
  -- Round robin over classes: each gets its share, and unused places go to the others.
  chosen AS (SELECT ${linkKey} FROM among QUALIFY row_number() OVER (ORDER BY nth, of_class DESC, class) <= ${page.edges}),
  shown AS (SELECT * FROM named SEMI JOIN chosen USING (${linkKey})),
  place AS (
    SELECT from_node AS node, client_agents AS agents, CASE WHEN client_kind = 'external' THEN client ELSE client_address END AS address,
      CASE WHEN client_kind = 'external' THEN provider END AS provider, CASE WHEN client_kind = 'external' THEN product END AS product FROM named
    UNION ALL
    SELECT to_node, server_agents, CASE WHEN server_kind = 'external' THEN server ELSE server_address END,
      CASE WHEN server_kind = 'external' THEN provider END, CASE WHEN server_kind = 'external' THEN product END FROM named
  ),
  node_agents AS (
    SELECT node, count(*)::DOUBLE AS agent_count, array_to_string(min(agent, ${listMax}), ',') AS agents
    FROM (SELECT DISTINCT node, unnest(agents) AS agent FROM place SEMI JOIN kept USING (node)) WHERE agent <> '' GROUP BY node
  ),
  node_addresses AS (
    SELECT node, array_to_string(min(address, ${listMax}) FILTER (address <> ''), ',') AS addresses, any_value(provider) AS provider, any_value(product) AS product
    FROM (SELECT DISTINCT node, unnest(string_split(coalesce(address, ''), ',')) AS address, provider, product FROM place SEMI JOIN kept USING (node)) GROUP BY node
  )
  SELECT 'edge' AS part, ${sql.edgeColumns} FROM (${sql.explain("shown")})
  UNION ALL BY NAME
  SELECT 'node' AS part, node, rank::DOUBLE AS rank, agent_count, agents, addresses, provider, product
  FROM kept LEFT JOIN node_agents USING (node) LEFT JOIN node_addresses USING (node)
  UNION ALL BY NAME
  SELECT 'totals' AS part, count(*)::DOUBLE AS nodes, (count(*) FILTER (starts_with(node, 'service:')))::DOUBLE AS services,
    (count(*) FILTER (calls AND starts_with(node, 'external:')))::DOUBLE AS ingress_sources,
    (count(*) FILTER (is_called AND starts_with(node, 'external:')))::DOUBLE AS egress_destinations,
    (SELECT count(*) FROM among)::DOUBLE AS edges
  FROM node`;
}

function isEnd(end: "client" | "server", service: string): string {
  return `(${end}_kind = 'service' AND ${end} = '${service.replaceAll("'", "''")}')`;
}

/**
 * Display name of an end: for an external one its product, else its host name, else its address. Keep in sync with outsideName() of the
 * tools.
 */
function nameSql(end: "client" | "server"): string {
  return `CASE WHEN ${end}_kind <> 'external' OR resolved_name IS NULL THEN ${end} WHEN provider IS NULL OR product IS NULL THEN resolved_name
    WHEN starts_with(lower(product), lower(provider)) THEN product ELSE provider || ' ' || product END`;
}

/** Collects nodes and totals from the rows of edgePageSql(). */
export class EdgePageReader {
  readonly #nodes: { rank: number; node: TopologyNodeFact }[] = [];
  #totals: EdgePageFacts["totals"] = { nodes: 0, services: 0, ingressSources: 0, egressDestinations: 0, edges: 0 };

  /** Returns false if the row is an edge. */
  read(row: QueryRow): boolean {
    const part = textIn(row, "part");
    if (part === "node") this.#nodes.push({ rank: numberIn(row, "rank"), node: nodeIn(row) });
    else if (part === "totals") {
      this.#totals = {
        nodes: numberIn(row, "nodes"),
        services: numberIn(row, "services"),
        ingressSources: numberIn(row, "ingress_sources"),
        egressDestinations: numberIn(row, "egress_destinations"),
        edges: numberIn(row, "edges"),
      };
    }
    return part !== "edge";
  }

  page(): EdgePageFacts {
    return { nodes: this.#nodes.sort((a, b) => a.rank - b.rank).map(({ node }) => node), totals: this.#totals };
  }
}

function nodeIn(row: QueryRow): TopologyNodeFact {
  const id = textIn(row, "node");
  const kind = id.slice(0, id.indexOf(":")) as TopologyNodeFact["kind"];
  const name = id.slice(kind.length + 1);
  const agentIds = listIn(row, "agents");
  const isUnseenHost = kind === "host" && agentIds.length === 0;
  return {
    id,
    kind,
    name,
    addresses: listIn(row, "addresses"),
    agentIds: isUnseenHost ? [name] : agentIds,
    agentCount: isUnseenHost ? 1 : numberIn(row, "agent_count"),
    provider: textOrNullIn(row, "provider"),
    product: textOrNullIn(row, "product"),
  };
}

function listIn(row: QueryRow, name: string): string[] {
  const text = textIn(row, name);
  return text === "" ? [] : text.split(",");
}
