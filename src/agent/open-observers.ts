/** What looks at this machine: services and their health, connections, requests, host samples, and metrics that programs show. */

import type { ResourceStack } from "../base/resource-stack.ts";
import type { AgentSetting } from "./agent-setting.ts";
import { createCollectors } from "./collectors.ts";
import { createKernelConnections } from "./connections/kernel-connections.ts";
import { createKubernetesPods, type KubernetesPods } from "./naming/kubernetes-pods.ts";
import type { AgentData } from "./open-agent-data.ts";
import { openManaged } from "./open-managed.ts";
import { openTraffic } from "./open-traffic.ts";
import { Scraper } from "./otlp/scraper.ts";

/** Requests are not watched before `traffic.collector.reconfigure()`, nothing else before the loops run. */
export async function openObservers(setting: AgentSetting, { store, auditLog, metricIntake }: AgentData, stack: ResourceStack) {
  const { reader, hostname, paths, owner, clock, log } = setting;
  const managed = await openManaged({
    file: `${paths.directory}/services.json`,
    owner,
    store,
    settings: () => setting.config.healthChecks,
    clock,
    log: log.child("services"),
  });
  const pods = createPods(setting);
  const kernel = createKernelConnections({
    isWanted: () => ["auto", "ebpf"].includes(setting.config.serviceDiscovery.backend),
    mark: (phase, mark) => traffic.collector.markScan(phase, mark),
    onEvents: () => collectors.storeConnectionsSoon(),
    onScanWanted: () => collectors.scanSoon(),
    clock,
    log: log.child("connections"),
  });
  const traffic = openTraffic({
    store,
    audit: auditLog,
    config: () => setting.config.traffic,
    hostname,
    ...(setting.ownPids ? { ownPids: setting.ownPids } : {}),
    ...(setting.superviseTraffic ? { supervise: setting.superviseTraffic } : {}),
    rescan: () => collectors.scanSoon(),
    connections: kernel,
    clock,
    log: log.child("traffic"),
  });
  stack.use(traffic.collector);
  const collectors = createCollectors({
    store,
    reader,
    clock,
    log: log.child("collect"),
    config: () => setting.config,
    managed: managed.services,
    traffic: traffic.names,
    watcher: traffic.watcher,
    kernel,
    ...(pods ? { pods } : {}),
  });
  const scraper = new Scraper({ config: () => setting.config.scrape, intake: metricIntake, clock, log: log.child("scrape") });
  return { managed, pods, kernel, traffic, collectors, scraper };
}

export type Observers = Awaited<ReturnType<typeof openObservers>>;

/** Only inside a cluster, and only when the config wants pods' labels. */
function createPods({ config, fetchClusterJson, hostname, log }: AgentSetting): KubernetesPods | undefined {
  const isWanted = process.env["KUBERNETES_SERVICE_HOST"] !== undefined && config.serviceDiscovery.names.kubernetesLabel !== null;
  if (!isWanted || !fetchClusterJson) return undefined;
  return createKubernetesPods({ fetchJson: fetchClusterJson, env: process.env, hostname, log: log.child("pods") });
}
