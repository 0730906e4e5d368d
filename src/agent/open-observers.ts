/** Opens what observes this machine: services and their health, connections, requests, host samples, scraped metrics. */

import { availableParallelism } from "node:os";
import type { ResourceStack } from "../base/resource-stack.ts";
import { startTicksOf } from "../host/index.ts";
import { superviseProfiles } from "../profile/index.ts";
import type { AgentContext } from "./agent-context.ts";
import { createCollectors } from "./collectors.ts";
import { createKernelConnections } from "./connections/kernel-connections.ts";
import { ObservedTime } from "./host/observed-time.ts";
import { createKubernetesPods, type KubernetesPods } from "./naming/kubernetes-pods.ts";
import { createProcessTimes } from "./naming/process-times.ts";
import { ServiceIdentities } from "./naming/service-identities.ts";
import type { AgentData } from "./open-agent-data.ts";
import { openManaged } from "./open-managed.ts";
import { openTraffic } from "./open-traffic.ts";
import { Scraper } from "./otlp/scraper.ts";
import { ProfileCollector } from "./profile/profile-collector.ts";
import type { TrafficDirectory } from "./traffic/traffic-directory.ts";

/**
 * Requests are observed after `traffic.collector.reconfigure()`, everything else when the loops run. `onRescanned` is called when rows that
 * a user waits for are stored.
 */
export async function openObservers(
  context: AgentContext,
  { store, auditLog, metricIntake }: AgentData,
  stack: ResourceStack,
  onRescanned: () => void,
) {
  const { reader, hostname, paths, owner, clock, log } = context;
  const identities = new ServiceIdentities(hostname);
  const managed = await openManaged({
    identities,
    file: `${paths.directory}/services.json`,
    owner,
    store,
    settings: () => context.config.healthChecks,
    clock,
    log: log.child("services"),
  });
  const pods = createPods(context);
  const kernel = createKernelConnections({
    isWanted: () => ["auto", "ebpf"].includes(context.config.serviceDiscovery.backend),
    mark: (phase, mark) => traffic.collector.markScan(phase, mark),
    onEvents: () => collectors.storeConnectionsSoon(),
    onScanWanted: () => collectors.scanSoon(),
    clock,
    log: log.child("connections"),
  });
  const traffic = openTraffic({
    store,
    audit: auditLog,
    config: () => context.config.traffic,
    hostname,
    processes: { times: createProcessTimes(reader.units), startTicksNow },
    ...(context.ownPids ? { ownPids: context.ownPids } : {}),
    ...(context.superviseTraffic ? { supervise: context.superviseTraffic } : {}),
    rescan: () => collectors.scanSoon(),
    connections: kernel,
    clock,
    log: log.child("traffic"),
  });
  stack.use(traffic.collector);
  const profiles = stack.use(openProfiles(context, store, traffic.directory));
  const collectors = createCollectors({
    store,
    reader,
    onRescanned,
    clock,
    log: log.child("collect"),
    config: () => context.config,
    managed: managed.services,
    identities,
    traffic: traffic.names,
    watcher: traffic.watcher,
    kernel,
    ...(pods ? { pods } : {}),
  });
  const scraper = new Scraper({ config: () => context.config.scrape, intake: metricIntake, clock, log: log.child("scrape") });
  return { managed, pods, kernel, traffic, profiles, collectors, scraper, observed: observedTime(context, store) };
}

function observedTime(context: AgentContext, store: AgentData["store"]): ObservedTime {
  return new ObservedTime({
    file: `${context.paths.directory}/observed.json`,
    owner: context.owner,
    bootId: context.machine.bootId,
    store,
    unstoredMs: () => context.config.traffic.intervalMs,
    clock: context.clock,
  });
}

function startTicksNow(pid: number): number | null {
  const ticks = startTicksOf(pid);
  return ticks === null ? null : Number(ticks);
}

export type Observers = Awaited<ReturnType<typeof openObservers>>;

/** Undefined outside a cluster, and when the config does not use pod labels. */
function createPods({ config, fetchClusterJson, hostname, log }: AgentContext): KubernetesPods | undefined {
  const isWanted = process.env["KUBERNETES_SERVICE_HOST"] !== undefined && config.serviceDiscovery.names.kubernetesLabel !== null;
  if (!isWanted || !fetchClusterJson) return undefined;
  return createKubernetesPods({ fetchJson: fetchClusterJson, env: process.env, hostname, log: log.child("pods") });
}

/** The collector of CPU profiles. Nothing is sampled before `reconfigure()`. */
function openProfiles(context: AgentContext, store: AgentData["store"], directory: TrafficDirectory): ProfileCollector {
  return new ProfileCollector({
    store,
    directory,
    config: () => context.config.profiles,
    supervise: context.superviseProfiles ?? superviseProfiles,
    cores: availableParallelism(),
    clock: context.clock,
    log: context.log.child("profiles"),
  });
}
