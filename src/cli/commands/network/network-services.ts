import { given } from "../../../base/given.ts";
import type { ServicePort } from "../../../model/services.ts";
import type { Service, ServiceList } from "../../../tools/index.ts";
import { type DotNode, renderDot } from "../../output/dot.ts";
import { renderScreen } from "../../output/screen.ts";
import { type Column, type Table, tableOf, valueColumn } from "../../output/table.ts";
import { plural, relative } from "../../output/values.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { toolInput } from "../../run/show-tool.ts";
import type { ToolInput } from "../../run/tool-command.ts";
import { checkCell, statusCell } from "../service/service-cells.ts";

/** Limit of the tool. */
const limit = 10_000;

/** `coral network services`: one line per service, agent and port. */
export async function run(invocation: Invocation): Promise<void> {
  const { options, print } = invocation;
  const colony = await connectColony(invocation);
  const wanted = inputOf(invocation);
  const ask = async (): Promise<ServiceList> => {
    const answer = await colony.call("coral_list_services", { limit, ...wanted });
    return options.text("class") === "internal" ? onlyInternal(answer) : answer;
  };
  const tableAt = (answer: ServiceList): Table => tableOf(linesOf(answer.services), columnsAt(Date.now()));
  await showAnswer(invocation, ask, {
    table: tableAt,
    page: (answer, wide) => renderScreen({ title: titleOf(invocation), table: tableAt(answer), total: totalOf(answer), wide }, print),
    dot: dotOf,
    empty: Object.keys(wanted).length > 0 ? "No service matches" : "No services discovered yet; agents scan every half minute",
  });
}

/** Turns the flags of this command, which differ from the tool's fields, into its input. */
function inputOf(invocation: Invocation): ToolInput<"coral_list_services"> {
  const { options } = invocation;
  const [discovered, managed] = [options.flag("discovered"), options.flag("managed")];
  // Both flags together select everything, like neither.
  const status = discovered === managed ? undefined : managed ? "managed" : "discovered";
  const { class: facing, ...input } = toolInput(invocation, "coral_list_services");
  // The tool has no class "internal", so filter here.
  return { ...input, ...given({ status, class: options.text("class") === "internal" ? undefined : facing }) };
}

function titleOf({ options }: Invocation): string {
  return options.flag("managed") && !options.flag("discovered") ? "MANAGED SERVICES" : "DISCOVERED SERVICES";
}

/** Recounts the totals, which the tool computed over all services. */
function onlyInternal(answer: ServiceList): ServiceList {
  const services = answer.services.filter((service) => !service.ingress && !service.egress);
  const count = (status: Service["status"]): number => services.filter((service) => service.status === status).length;
  return {
    ...answer,
    total: services.length,
    managed: count("managed"),
    discovered: count("discovered"),
    stale: count("stale"),
    services,
  };
}

/** `Total: 6 services (2 managed, 4 discovered)`. */
function totalOf({ total, managed, discovered, stale }: ServiceList): string {
  const parts = [`${managed} managed`, `${discovered} discovered`, ...(stale > 0 ? [`${stale} stale`] : [])];
  return `Total: ${plural(total, "service")}${total === 0 ? "" : ` (${parts.join(", ")})`}`;
}

/** One line of the table; `port` is undefined for a service that only opens connections. */
interface Line {
  service: Service;
  agent: Service["agents"][number];
  port: ServicePort | undefined;
}

/** A service with three ports on two hosts has six lines. */
function linesOf(services: readonly Service[]): Line[] {
  return services.flatMap((service) =>
    service.agents.flatMap((agent) =>
      (agent.ports.length === 0 ? [undefined] : agent.ports).map((port): Line => ({ service, agent, port })),
    ),
  );
}

function columnsAt(nowMs: number): readonly Column<Line>[] {
  const yesNo = (value: boolean): string => (value ? "yes" : "no");
  return [
    { title: "SERVICE", key: "service", cell: ({ service }) => service.service },
    { title: "AGENT", key: "agent", cell: ({ agent }) => agent.hostname },
    { title: "PORT", key: "port", cell: portText, raw: ({ port }) => port?.port, align: "left" },
    { title: "METHOD", key: "method", cell: ({ service, port }) => port?.method ?? service.method },
    valueColumn("INGRESS", "ingress", ({ agent }) => agent.ingress, yesNo),
    valueColumn("EGRESS", "egress", ({ agent }) => agent.egress, yesNo),
    { title: "STATUS", key: "status", cell: ({ agent, port }) => statusCell(port?.status ?? agent.status) },
    { title: "AGENT ID", key: "agentId", cell: ({ agent }) => agent.agentId, wide: true },
    { title: "PROTOCOL", key: "protocol", cell: ({ port }) => port?.protocol, wide: true },
    { title: "NAMED BY", key: "namedBy", cell: ({ service }) => service.namedBy, wide: true },
    { title: "CONFIDENCE", key: "confidence", cell: ({ service, port }) => port?.confidence ?? service.confidence, wide: true },
    { title: "PREVIOUSLY", key: "previousMethod", cell: ({ port }) => port?.previousMethod, wide: true },
    { title: "HEALTH", key: "health", cell: ({ agent }) => checkCell(agent.check), wide: true },
    { title: "INSTANCES", key: "instances", cell: ({ agent }) => agent.instances, wide: true },
    { title: "PIDS", key: "pids", cell: ({ agent }) => agent.pids.join(","), wide: true, align: "left" },
    { title: "BUILD", key: "build", cell: ({ agent }) => agent.build, wide: true, align: "left" },
    { title: "BINARY", key: "exe", cell: ({ agent }) => agent.exe, wide: true },
    {
      title: "FIRST SEEN",
      key: "firstSeenAt",
      cell: ({ service, port }) => relative(port?.firstSeenAt ?? service.firstSeenAt, nowMs),
      raw: ({ service, port }) => port?.firstSeenAt ?? service.firstSeenAt,
      wide: true,
    },
    {
      title: "LAST SEEN",
      key: "lastSeenAt",
      cell: ({ service, port }) => relative(port?.lastSeenAt ?? service.lastSeenAt, nowMs),
      raw: ({ service, port }) => port?.lastSeenAt ?? service.lastSeenAt,
      wide: true,
    },
  ];
}

function portText({ port }: Line): string | null {
  if (port?.port === undefined || port.port === null) return null;
  return port.protocol === "udp" ? `${port.port}/udp` : String(port.port);
}

/** X11 colour names, as GraphViz knows them. */
const fills: Record<Service["status"], string | undefined> = { managed: "honeydew2", discovered: undefined, stale: "grey92" };

/** DOT graph: one box per host with its services, linked to `outside` for ingress and egress. */
function dotOf({ services }: ServiceList): string {
  const hosts = new Map<string, DotNode[]>();
  const edges: { from: string; to: string; attributes: Record<string, string> }[] = [];
  for (const service of services) {
    for (const agent of service.agents) {
      const id = `${agent.agentId}/${service.service}`;
      const ports = agent.ports.map((port) => portText({ service, agent, port })).filter((port) => port !== null);
      const fill = fills[agent.status];
      const attributes = {
        label: ports.length === 0 ? service.service : `${service.service}\n${ports.join(" ")}`,
        ...(fill === undefined ? {} : { style: "rounded,filled", fillcolor: fill }),
      };
      const nodes = hosts.get(agent.hostname) ?? [];
      hosts.set(agent.hostname, [...nodes, { id, attributes }]);
      if (agent.ingress) edges.push({ from: "outside (ingress)", to: id, attributes: {} });
      if (agent.egress) edges.push({ from: id, to: "outside (egress)", attributes: {} });
    }
  }
  const outside = ["outside (ingress)", "outside (egress)"].filter((id) => edges.some((edge) => edge.from === id || edge.to === id));
  return renderDot({
    name: "services",
    clusters: [...hosts].map(([label, nodes]) => ({ label, nodes })),
    nodes: outside.map((id) => ({ id, attributes: { shape: "ellipse", style: "dashed" } })),
    edges,
  });
}
