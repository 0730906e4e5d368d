import { CoralError } from "../../../base/errors.ts";
import { parseDurationMs } from "../../../base/units.ts";
import type { Answer, Completeness, Service } from "../../../tools/index.ts";
import { type Column, type Table, tableOf, valueColumn } from "../../output/table.ts";
import { relative, shortList } from "../../output/values.ts";
import { type ColonyConnection, connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { checkCell, shortBuild, statusCell } from "./service-cells.ts";
import { processColumns, processLines, type ServiceReport, servicePage } from "./service-page.ts";

/** Limit of the tool. Filtering by name happens at the colony. */
const limit = 10_000;
const eventsShown = 10;
/** Ports, hosts or aliases per line; -o wide shows all. */
const portsShown = 5;
const hostsShown = 5;
/** Events are shown for longer than calls. */
const leastEventsSinceMs = 86_400_000;

/** `coral services`: the list, or one service in full when the name matches one. */
export async function run(invocation: Invocation): Promise<void> {
  const { args, options } = invocation;
  const colony = await connectColony(invocation);
  const agent = options.text("agent");
  const since = options.durationText("since") ?? "1h";
  const place = agent === undefined ? {} : { agent };
  const [name] = args;
  if (name !== undefined) {
    const found = await findService(colony, name, place);
    if (found !== undefined) {
      await showService(invocation, () => readReport(colony, found, place, since), since);
      return;
    }
  }
  await showAnswer(
    invocation,
    () => colony.call("coral_list_services", { limit, ...place, ...(name === undefined ? {} : { match: name }) }),
    {
      table: (answer) => tableOf(answer.services, columnsAt(Date.now(), invocation.format === "table")),
      empty: "No services discovered yet; agents scan every half minute",
    },
  );
}

/** The service of this name, ignoring case, else the only one with this alias or containing the text; undefined for several. Throws `not-found` for none. */
async function findService(colony: ColonyConnection, name: string, place: object): Promise<string | undefined> {
  const { services } = await colony.call("coral_list_services", { match: name, limit, ...place });
  const exact = services.find((service) => service.service === name);
  const near = services.filter((service) => service.service.toLowerCase() === name.toLowerCase());
  const called = services.filter(({ aliases }) => aliases.some((alias) => alias.toLowerCase() === name.toLowerCase()));
  const only = exact ?? [near, called, services].find(({ length }) => length === 1)?.[0];
  if (services.length > 0) return only?.service;
  throw new CoralError({
    code: "not-found",
    message: `Cannot find service "${name}": no name contains it; "coral services" lists all`,
  });
}

/** Combines three tools. A single-service page is rare enough that a tool of its own would not pay off. */
async function readReport(colony: ColonyConnection, service: string, place: object, since: string): Promise<Answer<ServiceReport>> {
  const eventsSinceMs = Math.max(leastEventsSinceMs, parseDurationMs(since));
  const [list, topology, events] = await Promise.all([
    colony.call("coral_list_services", { service, processes: true, limit: 1, ...place }),
    colony.call("coral_get_topology", { service, depth: 1, direction: "both", since, limit, ...place }),
    colony.call("coral_list_events", { service, since: `${Math.round(eventsSinceMs / 1_000)}s`, limit: eventsShown, ...place }),
  ]);
  const [found] = list.services;
  if (found === undefined)
    throw new CoralError({ code: "not-found", message: `Cannot find service "${service}": it disappeared during the request` });
  const id = `service:${service}`;
  const report: ServiceReport = {
    service: found,
    calledBy: topology.edges.filter((edge) => edge.to === id),
    calls: topology.edges.filter((edge) => edge.from === id),
    nodes: topology.nodes,
    events: events.events,
  };
  return { ...report, completeness: merged([list.completeness, topology.completeness, withoutLimits(events.completeness)]) };
}

/** Drops the note about older events, because the page shows only the newest by design. */
function withoutLimits({ notes }: Completeness): Completeness {
  const kept = notes.filter((note) => note.kind !== "limit");
  return { complete: kept.length === 0, notes: kept };
}

/** Union of the notes, without duplicates: several tools note the same silent agent. */
function merged(all: readonly Completeness[]): Completeness {
  const notes = new Map(all.flatMap(({ notes: own }) => own).map((note) => [note.message, note]));
  return { complete: all.every(({ complete }) => complete), notes: [...notes.values()] };
}

async function showService(invocation: Invocation, ask: () => Promise<Answer<ServiceReport>>, since: string): Promise<void> {
  await showAnswer(invocation, ask, {
    table: ({ service }): Table => tableOf(processLines(service), processColumns(Date.now())),
    page: (report, wide) => servicePage(report, invocation.print, { wide, since, nowMs: Date.now() }),
  });
}

/** Truncates lists within a line when `short`. */
function columnsAt(nowMs: number, short: boolean): readonly Column<Service>[] {
  const listed = (items: readonly (string | number)[], shown: number): string => shortList(items, short ? shown : items.length);
  const firstOf = (service: Service, key: "build" | "exe"): string | undefined =>
    service.agents.map((agent) => agent[key]).find((value) => value !== null) ?? undefined;
  return [
    { title: "SERVICE", key: "service", cell: (service) => service.service },
    {
      title: "PORTS",
      key: "ports",
      cell: (service) => listed(service.ports.map(portText), portsShown),
      raw: (service) => service.ports.map(portText).join(","),
      align: "left",
    },
    { title: "INSTANCES", key: "instances", cell: (service) => service.instances },
    { title: "STATUS", key: "status", cell: (service) => statusCell(service.status) },
    valueColumn("HEALTH", "check", (service) => service.check, checkCell),
    {
      title: "HOSTS",
      key: "hosts",
      cell: (service) =>
        listed(
          service.agents.map((agent) => agent.hostname),
          hostsShown,
        ),
      raw: (service) => service.agents.map((agent) => agent.hostname).join(","),
      align: "left",
    },
    { title: "AGENTS", key: "agentHealth", cell: (service) => service.health, wide: true },
    { title: "ORIGIN", key: "origin", cell: (service) => service.origin, wide: true },
    { title: "NAMED BY", key: "namedBy", cell: (service) => service.namedBy, wide: true },
    { title: "CONFIDENCE", key: "confidence", cell: (service) => service.confidence, wide: true },
    { title: "METHOD", key: "method", cell: (service) => service.method, wide: true },
    {
      title: "INGRESS",
      key: "ingress",
      cell: (service) => (service.ingress ? "yes" : "no"),
      raw: (service) => service.ingress,
      wide: true,
    },
    { title: "EGRESS", key: "egress", cell: (service) => (service.egress ? "yes" : "no"), raw: (service) => service.egress, wide: true },
    {
      title: "LAST SEEN",
      key: "lastSeenAt",
      cell: (service) => relative(service.lastSeenAt, nowMs),
      raw: (service) => service.lastSeenAt,
      wide: true,
    },
    { title: "ADDRESSES", key: "addresses", cell: (service) => service.agents.flatMap((agent) => agent.addresses).join(","), wide: true },
    { title: "PIDS", key: "pids", cell: (service) => service.agents.flatMap((agent) => agent.pids).join(","), wide: true, align: "left" },
    {
      title: "BUILD",
      key: "build",
      cell: (service) => shortBuild(firstOf(service, "build")),
      raw: (service) => firstOf(service, "build"),
      wide: true,
      align: "left",
    },
    { title: "BINARY", key: "exe", cell: (service) => firstOf(service, "exe"), wide: true },
  ];
}

/** TCP is the default, so only other protocols are named: `8080`, `53/udp`. */
function portText({ port, protocol }: Service["ports"][number]): string {
  return protocol.startsWith("tcp") ? String(port) : `${port}/${protocol}`;
}
