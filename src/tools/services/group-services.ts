import type { ServiceAtAgent, ServicePort, ServiceStatus } from "../../model/services.ts";
import type { AgentHealth, AgentInfo } from "../schemas/agent.ts";
import type { Service } from "../schemas/service.ts";

const healths: AgentHealth[] = ["healthy", "degraded", "unhealthy"];
const checks = [null, "healthy", "unknown", "unhealthy"] as const;
/** A service is managed when any instance is, and stale when all are. */
const statuses: ServiceStatus[] = ["stale", "discovered", "managed"];

const worse = <T>(order: readonly T[], a: T, b: T): T => (order.indexOf(b) > order.indexOf(a) ? b : a);

/** Merges the agents' instances into services, by name. Instances of other agents are skipped. */
export function groupServices(places: readonly ServiceAtAgent[], agents: readonly AgentInfo[]): Service[] {
  const agentOf = new Map(agents.map((agent) => [agent.agentId, agent]));
  const services = new Map<string, Service>();
  for (const place of places) {
    const agent = agentOf.get(place.agentId);
    if (agent) addPlace(services, place, agent);
  }
  for (const service of services.values()) {
    service.ports.sort((a, b) => a.port - b.port || a.protocol.localeCompare(b.protocol));
    service.agents.sort((a, b) => a.hostname.localeCompare(b.hostname) || a.agentId.localeCompare(b.agentId));
  }
  return [...services.values()].sort((a, b) => a.service.localeCompare(b.service));
}

function addPlace(services: Map<string, Service>, place: ServiceAtAgent, agent: AgentInfo): void {
  const service = services.get(place.service);
  const named = namedPortOf(place.ports);
  if (!service) {
    services.set(place.service, {
      service: place.service,
      id: place.id ?? place.service,
      origin: place.origin ?? null,
      aliases: place.aliases ?? [],
      status: place.status,
      method: named?.method ?? "",
      previousMethod: named?.previousMethod ?? null,
      namedBy: place.namedBy,
      confidence: place.confidence,
      instances: place.instances,
      ports: uniquePorts([], place.ports),
      ingress: place.ingress,
      egress: place.egress,
      health: agent.health,
      check: place.health,
      firstSeenAt: place.firstSeenAt,
      lastSeenAt: place.lastSeenAt,
      agents: [agentPlaceOf(place, agent)],
    });
    return;
  }
  if (statuses.indexOf(place.status) > statuses.indexOf(service.status) || place.confidence > service.confidence) {
    service.method = named?.method ?? service.method;
    service.previousMethod = named?.previousMethod ?? service.previousMethod;
    service.namedBy = place.namedBy;
  }
  service.status = worse(statuses, service.status, place.status);
  service.confidence = Math.max(service.confidence, place.confidence);
  service.instances += place.instances;
  service.ports = uniquePorts(service.ports, place.ports);
  service.ingress ||= place.ingress;
  service.egress ||= place.egress;
  service.health = worse(healths, service.health, agent.health);
  service.check = worse(checks, service.check, place.health);
  if (place.firstSeenAt < service.firstSeenAt) service.firstSeenAt = place.firstSeenAt;
  if (place.lastSeenAt > service.lastSeenAt) service.lastSeenAt = place.lastSeenAt;
  service.agents.push(agentPlaceOf(place, agent));
}

function agentPlaceOf(place: ServiceAtAgent, agent: AgentInfo): Service["agents"][number] {
  const { agentId, hostname, health } = agent;
  return {
    agentId,
    hostname,
    health,
    status: place.status,
    check: place.health,
    instances: place.instances,
    pids: place.pids,
    exe: place.exe,
    build: place.build,
    addresses: place.addresses,
    ports: place.ports,
    ingress: place.ingress,
    egress: place.egress,
    sampledAt: place.lastSeenAt,
    ...(place.processes ? { processes: place.processes } : {}),
  };
}

/** The representative port: a managed one, else the one with the highest confidence. */
function namedPortOf(ports: readonly ServicePort[]): ServicePort | undefined {
  return [...ports].sort((a, b) => statuses.indexOf(b.status) - statuses.indexOf(a.status) || b.confidence - a.confidence)[0];
}

function uniquePorts(known: Service["ports"], ports: readonly ServicePort[]): Service["ports"] {
  const all = [...known];
  for (const { port, protocol } of ports) {
    if (port === null || protocol === null || all.some((one) => one.port === port && one.protocol === protocol)) continue;
    all.push({ port, protocol });
  }
  return all;
}
