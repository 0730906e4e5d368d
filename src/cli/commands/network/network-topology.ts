import { given } from "../../../base/given.ts";
import { formatBytes } from "../../../base/units.ts";
import type { Topology, TopologyEdge } from "../../../tools/index.ts";
import { type Column, tableOf, valueColumn } from "../../output/table.ts";
import { percent, rate } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool, toolInput } from "../../run/show-tool.ts";
import { latencyColumn } from "../query/red-text.ts";
import { topologyDot } from "./topology-dot.ts";
import { topologyPage } from "./topology-page.ts";

const limit = 10_000;
/** Edges that a page can show; reading more of a large topology only costs time. */
const pageEdges = 5_000;
/** Limit of the tool; used for machine formats and for one service. */
const allEdges = 20_000;

/** `coral network topology`: a tree of calls; -o dot draws a graph, -o csv lists edges. */
export async function run(invocation: Invocation): Promise<void> {
  const { options, print, format } = invocation;
  const { since, service } = toolInput(invocation, "coral_get_topology");
  const shownClass = options.text("class")?.toUpperCase() as TopologyEdge["class"] | undefined;
  // A page around one service shows every edge.
  const isPage = format === "table" && service === undefined;
  await showTool(
    invocation,
    "coral_get_topology",
    {
      table: (answer) => tableOf(answer.edges, columnsOf(answer)),
      page: (answer, wide) => topologyPage(answer, print, { wide, selected: service }),
      dot: topologyDot,
      empty: `No connections in the last ${since}; look further back with --since`,
      isEmpty: (answer) => answer.edges.length === 0,
    },
    { limit, edges: isPage ? pageEdges : allEdges, ...given({ class: shownClass }) },
  );
}

function columnsOf({ nodes }: Topology): readonly Column<TopologyEdge>[] {
  // People read names; scripts get the stable ids with -o json.
  const names = new Map(nodes.map((node) => [node.id, node.name]));
  return [
    { title: "FROM", key: "from", cell: (edge) => names.get(edge.from) ?? edge.from },
    { title: "TO", key: "to", cell: (edge) => names.get(edge.to) ?? edge.to },
    { title: "CLASS", key: "class", cell: (edge) => edge.class },
    { title: "PROTOCOL", key: "protocol", cell: (edge) => edge.protocol },
    { title: "PORT", key: "port", cell: (edge) => edge.port },
    { title: "CONNECTIONS", key: "connections", cell: (edge) => edge.connections },
    { title: "OPEN", key: "openConnections", cell: (edge) => edge.openConnections },
    valueColumn("PER MINUTE", "connectionsPerMinute", (edge) => edge.connectionsPerMinute, rate),
    { title: "FAILED", key: "failures", cell: (edge) => edge.failures },
    valueColumn("TO SERVER", "bytesToServer", (edge) => edge.bytesToServer, formatBytes),
    valueColumn("TO CLIENT", "bytesToClient", (edge) => edge.bytesToClient, formatBytes),
    { title: "RTT US", key: "rttUs", cell: (edge) => edge.rttUs },
    { title: "RETRANSMITS", key: "retransmits", cell: (edge) => edge.retransmits },
    {
      title: "REQ/S",
      key: "requestsPerSecond",
      cell: (edge) => (edge.requests ? rate(edge.requests.perSecond) : null),
      raw: (edge) => edge.requests?.perSecond,
    },
    { title: "REQUESTS", key: "requestProtocol", cell: (edge) => edge.requests?.protocol },
    valueColumn("ERRORS", "requestErrorRatio", (edge) => edge.requests?.errorRatio, percent),
    latencyColumn("P95", "requestP95Us", (edge) => edge.requests?.p95Us ?? null),
    { title: "CONFIDENCE", key: "confidence", cell: (edge) => edge.confidence },
    { title: "EVIDENCE", key: "evidence", cell: (edge) => edge.evidence.join(",") },
    { title: "FIRST SEEN", key: "firstSeenAt", cell: (edge) => edge.firstSeenAt },
    { title: "LAST SEEN", key: "lastSeenAt", cell: (edge) => edge.lastSeenAt },
  ];
}
