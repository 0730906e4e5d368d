/** `coral network ingress` and `coral network egress`: external callers and callees per service. */

import { formatBytes } from "../../../base/units.ts";
import type { EndpointList, EndpointUse } from "../../../tools/index.ts";
import { renderScreen } from "../../output/screen.ts";
import { type Column, type Table, tableOf, valueColumn } from "../../output/table.ts";
import { addressWithPort, grouped, plural, rate, relative } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import type { AnswerView } from "../../run/show-answer.ts";
import { showTool, toolInput } from "../../run/show-tool.ts";
import { shortBuild } from "../service/service-cells.ts";

/** Limit of the tool. Order and totals need all rows. */
const limit = 10_000;

/** What differs between the two commands. */
interface EndpointScreen {
  tool: "coral_get_ingress" | "coral_get_egress";
  title: string;
  /** Noun for one line: `external source`. */
  one: string;
  many: string;
  sort: (endpoints: EndpointUse[]) => EndpointUse[];
  empty: string;
}

/** `coral network ingress`: grouped by service, busiest caller first. */
export function ingress(invocation: Invocation): Promise<void> {
  return showEndpoints(invocation, {
    tool: "coral_get_ingress",
    title: "INGRESS ENDPOINTS",
    one: "external source",
    many: "external sources",
    sort: (endpoints) => endpoints.sort((a, b) => a.service.localeCompare(b.service) || b.connections - a.connections),
    empty: "No external callers",
  });
}

/** `coral network egress`: grouped by service, busiest dependency first. */
export function egress(invocation: Invocation): Promise<void> {
  return showEndpoints(invocation, {
    tool: "coral_get_egress",
    title: "EGRESS ENDPOINTS",
    one: "external dependency",
    many: "external dependencies",
    sort: (endpoints) => endpoints.sort((a, b) => b.connections - a.connections),
    empty: "No external dependencies",
  });
}

/** Both commands differ only in tool, order and wording. */
async function showEndpoints(invocation: Invocation, screen: EndpointScreen): Promise<void> {
  const { print } = invocation;
  const { since } = toolInput(invocation, screen.tool);
  const tableAt = (answer: EndpointList): Table => tableOf(screen.sort([...answer.endpoints]), columnsAt(Date.now()));
  const view: AnswerView<EndpointList> = {
    table: tableAt,
    page: (answer, wide) =>
      renderScreen(
        { title: screen.title, table: tableAt(answer), total: `Total: ${plural(answer.total, screen.one, screen.many)}`, wide },
        print,
      ),
    empty: `${screen.empty} in the last ${since}; look further back with --since`,
  };
  await showTool(invocation, screen.tool, view, { limit });
}

function columnsAt(nowMs: number): readonly Column<EndpointUse>[] {
  return [
    { title: "SERVICE", key: "service", cell: (use) => use.service },
    {
      title: "EXTERNAL IP",
      key: "address",
      cell: (use) => (use.address === "*" ? "other addresses" : addressWithPort(use.address, use.port)),
      raw: (use) => use.address,
    },
    { title: "RESOLVED NAME", key: "name", cell: (use) => use.name },
    { title: "CONNECTIONS", key: "connections", cell: (use) => grouped(use.connections), raw: (use) => use.connections, align: "left" },
    { title: "PORT", key: "port", cell: (use) => use.port ?? use.servicePort, wide: true },
    { title: "PROTOCOL", key: "protocol", cell: (use) => use.protocol, wide: true },
    { title: "SCOPE", key: "scope", cell: (use) => use.scope, wide: true },
    { title: "PROVIDER", key: "provider", cell: (use) => use.provider, wide: true },
    { title: "PRODUCT", key: "product", cell: (use) => use.product, wide: true },
    { title: "NAMED BY", key: "nameMethod", cell: (use) => use.nameMethod, wide: true },
    { title: "OPEN", key: "openConnections", cell: (use) => use.openConnections, wide: true },
    valueColumn("PER MINUTE", "connectionsPerMinute", (use) => use.connectionsPerMinute, rate, { align: "right", wide: true }),
    valueColumn("TO SERVER", "bytesToServer", (use) => use.bytesToServer, formatBytes, { wide: true }),
    valueColumn("TO CLIENT", "bytesToClient", (use) => use.bytesToClient, formatBytes, { wide: true }),
    { title: "CONFIDENCE", key: "confidence", cell: (use) => use.confidence, wide: true },
    {
      title: "FIRST BUILD",
      key: "firstBuild",
      cell: (use) => shortBuild(use.firstBuild),
      raw: (use) => use.firstBuild,
      wide: true,
      align: "left",
    },
    { title: "FIRST SEEN", key: "firstSeenAt", cell: (use) => relative(use.firstSeenAt, nowMs), raw: (use) => use.firstSeenAt, wide: true },
    { title: "LAST SEEN", key: "lastSeenAt", cell: (use) => relative(use.lastSeenAt, nowMs), raw: (use) => use.lastSeenAt, wide: true },
    { title: "AGENTS", key: "agents", cell: (use) => use.agents.join(","), wide: true, align: "left" },
  ];
}
