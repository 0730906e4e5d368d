import { formatBytes } from "../../../base/units.ts";
import type { Topology, TopologyEdge } from "../../../tools/index.ts";
import { type Column, tableOf } from "../../output/table.ts";
import { percent, rate } from "../../output/values.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { latencyColumn } from "../query/red-text.ts";
import { topologyDot } from "./topology-dot.ts";
import { topologyPage } from "./topology-page.ts";

const limit = 10_000;
/** A page for people shows a part of what there is; asking for more would only make them wait. */
const pageEdges = 5_000;
/** What the tool gives at the most: for programs, and around one service. */
const allEdges = 20_000;

/** `coral network topology`. */
export async function run(invocation: Invocation): Promise<void> {
  const { options, print } = invocation;
  const colony = await connectColony(invocation);
  const since = options.durationText("since") ?? "1h";
  const given = {
    service: options.text("service"),
    direction: options.text("direction"),
    depth: options.integer("depth", 1, 50),
    agent: options.text("agent"),
    class: options.text("class")?.toUpperCase(),
    coral: options.flag("coral") || undefined,
  };
  const isPage = invocation.format === "table" && given.service === undefined;
  const input = {
    since,
    limit,
    edges: isPage ? pageEdges : allEdges,
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
  };
  await showAnswer(invocation, () => colony.call<Topology>("coral_get_topology", input), {
    table: (answer) => tableOf(answer.edges, columnsOf(answer)),
    page: (answer, wide) => topologyPage(answer, print, { wide, asked: given.service }),
    dot: topologyDot,
    empty: `No connections were seen in the last ${since}; look further back with --since`,
    isEmpty: (answer) => answer.edges.length === 0,
  });
}

function columnsOf({ nodes }: Topology): readonly Column<TopologyEdge>[] {
  const names = new Map(nodes.map((node) => [node.id, node.name]));
  return [
    { title: "FROM", key: "from", cell: (edge) => names.get(edge.from) ?? edge.from },
    { title: "TO", key: "to", cell: (edge) => names.get(edge.to) ?? edge.to },
    { title: "CLASS", key: "class", cell: (edge) => edge.class },
    { title: "PROTOCOL", key: "protocol", cell: (edge) => edge.protocol },
    { title: "PORT", key: "port", cell: (edge) => edge.port },
    { title: "CONNECTIONS", key: "connections", cell: (edge) => edge.connections },
    { title: "OPEN", key: "openConnections", cell: (edge) => edge.openConnections },
    {
      title: "PER MINUTE",
      key: "connectionsPerMinute",
      cell: (edge) => rate(edge.connectionsPerMinute),
      raw: (edge) => edge.connectionsPerMinute,
    },
    { title: "FAILED", key: "failures", cell: (edge) => edge.failures },
    { title: "TO SERVER", key: "bytesToServer", cell: (edge) => formatBytes(edge.bytesToServer), raw: (edge) => edge.bytesToServer },
    { title: "TO CLIENT", key: "bytesToClient", cell: (edge) => formatBytes(edge.bytesToClient), raw: (edge) => edge.bytesToClient },
    { title: "RTT US", key: "rttUs", cell: (edge) => edge.rttUs },
    { title: "RETRANSMITS", key: "retransmits", cell: (edge) => edge.retransmits },
    {
      title: "REQ/S",
      key: "requestsPerSecond",
      cell: (edge) => (edge.requests ? rate(edge.requests.perSecond) : null),
      raw: (edge) => edge.requests?.perSecond,
    },
    { title: "REQUESTS", key: "requestProtocol", cell: (edge) => edge.requests?.protocol },
    {
      title: "ERRORS",
      key: "requestErrorRatio",
      cell: (edge) => percent(edge.requests?.errorRatio),
      raw: (edge) => edge.requests?.errorRatio,
    },
    latencyColumn("P95", "requestP95Us", (edge) => edge.requests?.p95Us ?? null),
    { title: "CONFIDENCE", key: "confidence", cell: (edge) => edge.confidence },
    { title: "EVIDENCE", key: "evidence", cell: (edge) => edge.evidence.join(",") },
    { title: "FIRST SEEN", key: "firstSeenAt", cell: (edge) => edge.firstSeenAt },
    { title: "LAST SEEN", key: "lastSeenAt", cell: (edge) => edge.lastSeenAt },
  ];
}
