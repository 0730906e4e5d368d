/**
 * Translates between service ids and labels. People, models and tools use labels; rows and store queries use ids. Names in
 * requests become row keys, and row keys in answers become labels, here and nowhere else.
 */

import type { DatabaseFacts, LockFact } from "../../model/database-facts.ts";
import { type DiagnosisFacts, requestMeasures } from "../../model/diagnosis.ts";
import type { EdgeEnd, EdgeFact, EdgePageFacts, EdgeRedKey } from "../../model/edges.ts";
import type { ColonyEvent } from "../../model/events.ts";
import type { OwnStoreFacts } from "../../model/own-stores.ts";
import type { Resolved } from "../../model/services.ts";
import type { SummaryFacts } from "../../model/summary.ts";
import type { CaptureEvent, ColonyBackend } from "../../tools/index.ts";
import type { ServiceDirectory } from "./service-directory.ts";
import type { ServiceNames } from "./service-names.ts";

/** Measures whose subject is the other end of calls. */
const namesPeer: ReadonlySet<string> = new Set([requestMeasures.calls, requestMeasures.outside]);

/** A backend whose requests and answers contain row keys instead of labels. Requests for a single service contain its id. */
type Unresolved =
  | "capture"
  | "markDeployment"
  | "nowMs"
  | "diagnosisOnset"
  | "diagnosisFacts"
  | "keepEvidence"
  | "evidence"
  | "databaseTraffic"
  | "inspectDatabases"
  // These handle labels themselves.
  | "incidents"
  | "incident"
  | "objectives"
  | "setObjective"
  | "removeObjective"
  | "requestTotals";
export type ResolvedBackend = Pick<ColonyBackend, Unresolved> & {
  [M in Exclude<keyof ColonyBackend, Unresolved>]: ColonyBackend[M] extends (request: infer R, ...rest: infer A) => infer T
    ? (request: Resolved<R>, ...rest: A) => T
    : never;
};

type Label = (text: string) => string;

export function labelBackend(inner: ResolvedBackend, directory: Pick<ServiceDirectory, "names">): ColonyBackend {
  return {
    ...inner,
    ...servicesBackend(inner, directory),
    ...trafficBackend(inner, directory),
    ...telemetryBackend(inner, directory),
    hotFunctions: async (request, context) => await inner.hotFunctions(resolved(await directory.names(), request), context),
    profile: async (request, context) => await inner.profile(resolved(await directory.names(), request), context),
    ...databasesBackend(inner, directory),
  };
}

/** Replaces names in a request with row keys. */
function resolved<R extends { service?: string; peer?: string }>(names: ServiceNames, request: R): Resolved<R> {
  const { service, peer } = request;
  return {
    ...request,
    ...(service !== undefined && { service: names.textsOf(service) }),
    ...(peer !== undefined && { peer: names.textsOf(peer) }),
  } as Resolved<R>;
}

type ServicesPart =
  | "diagnosisFacts"
  | "services"
  | "summary"
  | "routeHealth"
  | "serviceDetails"
  | "deployments"
  | "markDeployment"
  | "events"
  | "serviceCpu";

function servicesBackend(inner: ResolvedBackend, directory: Pick<ServiceDirectory, "names">): Pick<ColonyBackend, ServicesPart> {
  return {
    services: async (request, context) => {
      const names = await directory.names();
      const found = await inner.services(resolved(names, request), context);
      return found
        .map((place) => {
          const label = names.labelOf(place.service);
          const known = names.serviceOf(label);
          return {
            ...place,
            service: label,
            id: place.service,
            origin: known?.origin ?? null,
            aliases: [...new Set([...(known?.formerNames ?? []), ...(known?.aliases ?? [])])].filter((alias) => alias !== label),
          };
        })
        .sort((a, b) => compareTexts(a.service, b.service) || compareTexts(a.agentId, b.agentId));
    },
    summary: async (request, context) => {
      const names = await directory.names();
      return labelSummary(await inner.summary(resolved(names, request), context), names);
    },
    routeHealth: async (request, context) => {
      const names = await directory.names();
      return labelled(await inner.routeHealth(resolved(names, request), context), names);
    },
    diagnosisFacts: async (request, context) => labelDiagnosis(await inner.diagnosisFacts(request, context), await directory.names()),
    serviceDetails: async (request, context) => {
      const names = await directory.names();
      const facts = await inner.serviceDetails(resolved(names, request), context);
      return { ...facts, peers: facts.peers.map((peer) => ({ ...peer, peer: names.labelOf(peer.peer) })) };
    },
    deployments: async (request, context) => {
      const names = await directory.names();
      return labelled(await inner.deployments(resolved(names, request), context), names);
    },
    markDeployment: async (request, context) => {
      const names = await directory.names();
      const [id = request.service] = names.textsOf(request.service);
      const marked = await inner.markDeployment({ ...request, service: id }, context);
      return { ...marked, deployment: { ...marked.deployment, service: names.labelOf(marked.deployment.service) } };
    },
    events: async (request, context) => {
      const names = await directory.names();
      return (await inner.events(resolved(names, request), context)).map((event) => labelEvent(event, names));
    },
    serviceCpu: async (context) => labelled(await inner.serviceCpu(context), await directory.names()),
  };
}

function databasesBackend(
  inner: ResolvedBackend,
  directory: Pick<ServiceDirectory, "names">,
): Pick<ColonyBackend, "databaseTraffic" | "inspectDatabases"> {
  return {
    databaseTraffic: async (request, context) => {
      const names = await directory.names();
      const { statements, pools } = await inner.databaseTraffic(request, context);
      return {
        statements: labelled(statements, names),
        pools: labelled(pools, names).map((pool) => ({ ...pool, caller: names.labelOf(pool.caller) })),
      };
    },
    inspectDatabases: async (request, context) => {
      const names = await directory.names();
      const { found, problems } = await inner.inspectDatabases(request, context);
      return { found: found.map((one) => ({ ...one, facts: labelHolders(one.facts, names) })), problems };
    },
  };
}

function labelHolders(facts: DatabaseFacts, names: ServiceNames): DatabaseFacts {
  const label = (lock: LockFact): LockFact => {
    const { service } = lock.holder;
    return { ...lock, holder: { ...lock.holder, service: service === null ? null : names.labelOf(service) } };
  };
  return { ...facts, locks: facts.locks.map(label) };
}

type TrafficPart = "edges" | "edgeRed" | "red" | "connections" | "trafficLosses" | "capture";

function trafficBackend(inner: ResolvedBackend, directory: Pick<ServiceDirectory, "names">): Pick<ColonyBackend, TrafficPart> {
  return {
    edges: async (request, context) => {
      const names = await directory.names();
      const { page, ...rest } = resolved(names, request);
      const [without] = page?.without === undefined ? [] : names.textsOf(page.without);
      const facts = await inner.edges({ ...rest, ...(page && { page: { ...page, ...(without !== undefined && { without }) } }) }, context);
      return {
        ...facts,
        edges: facts.edges.map(
          (edge): EdgeFact => ({ ...edge, client: labelEnd(edge.client, names), server: labelEnd(edge.server, names) }),
        ),
        ...(facts.page && { page: labelPage(facts.page, names) }),
      };
    },
    edgeRed: async (request, context) => {
      const names = await directory.names();
      const toIds = (key: EdgeRedKey): EdgeRedKey => ({ ...key, client: idEnd(key.client, names), server: idEnd(key.server, names) });
      const facts = await inner.edgeRed(
        { ...resolved(names, request), ...(request.among && { among: request.among.map(toIds) }) },
        context,
      );
      const label = (edge: (typeof facts.edges)[number]) => ({
        ...edge,
        client: labelEnd(edge.client, names),
        server: labelEnd(edge.server, names),
      });
      return { ...facts, edges: facts.edges.map(label) };
    },
    red: async (request, context) => {
      const names = await directory.names();
      const facts = await inner.red(resolved(names, request), context);
      return { ...facts, rows: facts.rows.map((row) => labelEnds(row, names)) };
    },
    connections: async (request, context) => {
      const names = await directory.names();
      const facts = await inner.connections(resolved(names, request), context);
      return { ...facts, rows: facts.rows.map((row) => ({ ...row, service: names.labelOf(row.service), peer: names.labelOf(row.peer) })) };
    },
    trafficLosses: async (request, context) => {
      const [losses, names] = await Promise.all([inner.trafficLosses(request, context), directory.names()]);
      return losses.map((loss) => ({ ...loss, service: loss.service === null ? null : names.labelOf(loss.service) }));
    },
    capture: async function* (request, context) {
      const names = await directory.names();
      const [id = request.service] = names.textsOf(request.service);
      for await (const event of inner.capture({ ...request, service: id }, context)) yield labelCapture(event, request.service, names);
    },
  };
}

type TelemetryPart =
  | "logs"
  | "logPatterns"
  | "metricNames"
  | "metric"
  | "metricLosses"
  | "traces"
  | "trace"
  | "spanEdges"
  | "spanRed"
  | "spanProcesses"
  | "spanServices"
  | "logServices";

function telemetryBackend(inner: ResolvedBackend, directory: Pick<ServiceDirectory, "names">): Pick<ColonyBackend, TelemetryPart> {
  return {
    logs: async (request, context) => {
      const names = await directory.names();
      return labelRows(await inner.logs(resolved(names, request), context), names);
    },
    logPatterns: async (request, context) => {
      const names = await directory.names();
      return labelRows(await inner.logPatterns(resolved(names, request), context), names);
    },
    metricNames: async (request, context) => {
      const names = await directory.names();
      const facts = await inner.metricNames(resolved(names, request), context);
      return { ...facts, rows: facts.rows.map((row) => ({ ...row, services: labels(row.services, names) })) };
    },
    metric: async (request, context) => {
      const names = await directory.names();
      const facts = await inner.metric(resolved(names, request), context);
      const group = (text: string | null): string | null => (request.by === "service" && text !== null ? names.labelOf(text) : text);
      return { ...facts, rows: facts.rows.map((row) => ({ ...row, service: names.labelOf(row.service), group: group(row.group) })) };
    },
    metricLosses: async (request, context) => labelled(await inner.metricLosses(request, context), await directory.names()),
    traces: async (request, context) => {
      const names = await directory.names();
      const facts = await inner.traces(resolved(names, request), context);
      const label: Label = (text) => names.labelOf(text);
      const rows = facts.rows.map((row) => ({
        ...row,
        service: label(row.service),
        matchService: label(row.matchService),
        services: labels(row.services, names),
      }));
      return { ...facts, rows };
    },
    trace: async (request, context) => {
      const facts = await inner.trace(request, context);
      return { ...facts, spans: labelled(facts.spans, await directory.names()) };
    },
    spanEdges: async (request, context) => {
      const names = await directory.names();
      const { among } = request;
      const pairs = among?.flatMap(({ client, server }) =>
        names.textsOf(client).flatMap((from) => names.textsOf(server).map((to) => ({ client: from, server: to }))),
      );
      const facts = await inner.spanEdges({ ...resolved(names, request), ...(pairs && { among: pairs }) }, context);
      return {
        ...facts,
        edges: facts.edges.map((edge) => ({ ...edge, client: names.labelOf(edge.client), server: names.labelOf(edge.server) })),
      };
    },
    spanRed: async (request, context) => {
      const names = await directory.names();
      const facts = await inner.spanRed(resolved(names, request), context);
      return { ...facts, rows: labelled(facts.rows, names) };
    },
    spanProcesses: async (context) => labelled(await inner.spanProcesses(context), await directory.names()),
    spanServices: async (request, context) => labels(await inner.spanServices(request, context), await directory.names()),
    logServices: async (request, context) => labels(await inner.logServices(request, context), await directory.names()),
  };
}

/** A service with several row keys keeps the facts of each under its one label. */
function labelDiagnosis(facts: DiagnosisFacts, names: ServiceNames): DiagnosisFacts {
  const label: Label = (text) => names.labelOf(text);
  const pair = <T extends { caller: string; callee: string }>(one: T): T => ({
    ...one,
    caller: label(one.caller),
    callee: label(one.callee),
  });
  return {
    ...facts,
    measures: labelled(facts.measures, names).map((one) => (namesPeer.has(one.name) ? { ...one, subject: label(one.subject) } : one)),
    operations: labelled(facts.operations, names),
    links: facts.links.map(pair),
    steps: facts.steps.map((step) => ({ ...step, service: label(step.service), childService: label(step.childService) })),
    calls: facts.calls.map(pair),
    externals: labels(facts.externals, names),
    changes: labelled(facts.changes, names),
    limits: labelled(facts.limits, names),
    hosts: facts.hosts.map((host) => ({ ...host, services: labels(host.services, names), programs: labelled(host.programs, names) })),
  };
}

function compareTexts(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

/** Deduplicated, in order of the first occurrence. */
function labels(texts: readonly string[], names: ServiceNames): string[] {
  return [...new Set(texts.map((text) => names.labelOf(text)))];
}

function labelled<T extends { service: string }>(rows: readonly T[], names: ServiceNames): T[] {
  return rows.map((row) => ({ ...row, service: names.labelOf(row.service) }));
}

function labelRows<T extends OwnStoreFacts & { rows: { service: string }[]; services: string[] }>(facts: T, names: ServiceNames): T {
  return { ...facts, rows: labelled(facts.rows, names), services: labels(facts.services, names) };
}

function labelEnds<T extends { service: string; peer: string | null }>(row: T, names: ServiceNames): T {
  return { ...row, service: names.labelOf(row.service), peer: row.peer === null ? null : names.labelOf(row.peer) };
}

function labelEnd<T extends Pick<EdgeEnd, "kind" | "name">>(end: T, names: ServiceNames): T {
  return end.kind === "service" ? { ...end, name: names.labelOf(end.name) } : end;
}

function idEnd<T extends Pick<EdgeEnd, "kind" | "name">>(end: T, names: ServiceNames): T {
  const [id = end.name] = end.kind === "service" ? names.textsOf(end.name) : [];
  return { ...end, name: id };
}

function labelPage(page: EdgePageFacts, names: ServiceNames): EdgePageFacts {
  const nodes = page.nodes.map((node) => (node.kind === "service" ? { ...node, ...labelNode(node.name, names) } : node));
  return { ...page, nodes };
}

function labelNode(text: string, names: ServiceNames): { id: string; name: string } {
  const name = names.labelOf(text);
  return { id: `service:${name}`, name };
}

/** Labelled facts of all services are cached like the facts themselves. */
const labelledSummaries = new WeakMap<SummaryFacts, { names: ServiceNames; labelled: SummaryFacts }>();

function labelSummary(facts: SummaryFacts, names: ServiceNames): SummaryFacts {
  const known = labelledSummaries.get(facts);
  if (known?.names === names) return known.labelled;
  const labelled = labelledSummary(facts, names);
  labelledSummaries.set(facts, { names, labelled });
  return labelled;
}

function labelledSummary(facts: SummaryFacts, names: ServiceNames): SummaryFacts {
  return {
    ...facts,
    requests: labelled(facts.requests, names),
    routes: labelled(facts.routes, names),
    calls: facts.calls.map((call) => ({ ...call, service: names.labelOf(call.service), callee: names.labelOf(call.callee) })),
    places: labelled(facts.places, names),
    cgroups: facts.cgroups.map((group) => ({ ...group, services: labels(group.services, names) })),
    patterns: labelled(facts.patterns, names),
    events: labelled(facts.events, names),
    logServices: labels(facts.logServices, names),
    aliases: new Map([...facts.aliases].map(([alias, service]) => [names.labelOf(alias), names.labelOf(service)])),
  };
}

/** Event details keep ids, which survive renames; messages use labels. */
function labelEvent(event: ColonyEvent, names: ServiceNames): ColonyEvent {
  return event.service === null ? event : { ...event, service: names.labelOf(event.service) };
}

function labelCapture(event: CaptureEvent, service: string, names: ServiceNames): CaptureEvent {
  if (event.kind === "started") return { ...event, service };
  if (event.kind !== "request") return event;
  const { peer } = event.request;
  return { ...event, request: { ...event.request, service, peer: peer === null ? null : names.labelOf(peer) } };
}
