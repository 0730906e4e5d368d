/** The agent: collectors fill the store, the link keeps the colony able to pull from it, the control socket answers the local CLI. */

import { setMaxListeners } from "node:events";
import { dirname } from "node:path";
import { background } from "../base/background.ts";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { RedactionRules } from "../base/redact-line.ts";
import { ResourceStack } from "../base/resource-stack.ts";
import type { CapabilityFact } from "../base/runtime-facts.ts";
import type { AgentConfig, AgentPaths, FileOwner } from "../config/index.ts";
import { createHostReader } from "../host/index.ts";
import { type ControlServerOptions, createOtlpClient, startControlServer, startHealthServer, startOtlpServers } from "../mesh/index.ts";
import { MetricIntake, OtlpIntake } from "../otlp/index.ts";
import { type AgentStore, type Engine, segmentSignals, signals } from "../store/index.ts";
import { createAgentHttp } from "./agent-http.ts";
import { loadAgentId } from "./agent-id.ts";
import { runAgentLoops } from "./agent-loops.ts";
import { addAgentService } from "./agent-service.ts";
import { AuditLog } from "./audit-log.ts";
import { createCollectors } from "./collectors.ts";
import { ColonyLink } from "./colony-link.ts";
import { rememberEndpointIn } from "./endpoint-memory.ts";
import { openHealingStore } from "./healing-store.ts";
import { createKernelConnections } from "./kernel-connections.ts";
import { createKubernetesPods, type FetchClusterJson, type KubernetesPods } from "./kubernetes-pods.ts";
import { LogPatterns } from "./log-patterns.ts";
import { LogTails } from "./log-tails.ts";
import { openCommands } from "./open-commands.ts";
import { openManaged } from "./open-managed.ts";
import { openRuntimeReporter } from "./open-runtime-reporter.ts";
import { type OpenTrafficOptions, openTraffic } from "./open-traffic.ts";
import { QueryService } from "./query-service.ts";
import { RuntimeWatch } from "./runtime-watch.ts";
import { Scraper } from "./scraper.ts";
import { findSegmentFile } from "./segment-service.ts";
import { SelfDescription, saidOf } from "./self-description.ts";
import { trafficCapability } from "./traffic-status.ts";

export interface AgentOptions {
  config: AgentConfig;
  paths: AgentPaths;
  engine: Engine;
  version: string;
  owner: FileOwner | undefined;
  peerCredentials: ControlServerOptions["peerCredentials"];
  obtainToken: () => Promise<string | undefined>;
  /** Where a colony of this machine listens now; undefined when it is elsewhere or away. */
  locateColony: (colonyId: string) => Promise<string | undefined>;
  /** Asks the API of a Kubernetes cluster; absent: it is not asked. */
  fetchClusterJson?: FetchClusterJson;
  /** What this host lets the agent do, with reasons where not. */
  capabilities: { name: string; available: boolean; reason: string }[];
  /** What the kernel lets it do: ebpf, profile, debug. */
  kernel?: readonly CapabilityFact[];
  /** Ports to try after a taken one. */
  portSearch: number;
  /** Processes of Coral beside this one, now: their requests are not watched. */
  ownPids?: () => readonly number[];
  /** Starts the process that watches requests; default: the real one. */
  superviseTraffic?: NonNullable<OpenTrafficOptions["supervise"]>;
  /** Told when so much OTLP comes that being fast is worth memory, and when that is over. */
  onOtlpLoad?: (isBusy: boolean) => void;
  /** The same, for the output of commands. */
  onCommandLoad?: (isBusy: boolean) => void;
  clock: Clock;
  log: Logger;
}

export interface Agent extends AsyncDisposable {
  agentId: string;
  /** `http://127.0.0.1:9001`. */
  url: string;
  socketFile: string;
  /** Takes what can change without a restart; names what cannot. */
  reload(config: AgentConfig): string[];
}

export function startAgent(options: AgentOptions): Promise<Agent> {
  return ResourceStack.assemble((stack) => assemble(options, stack));
}

async function assemble(options: AgentOptions, stack: ResourceStack): Promise<Agent> {
  const { paths, engine, clock, log, version, owner } = options;
  const stopped = new AbortController();
  // Every loop waits on it; Node takes more than ten for a leak.
  setMaxListeners(0, stopped.signal);
  let config = options.config;
  const reader = createHostReader();
  const machine = reader.machine();
  const { hostname } = machine;
  const agentId = await loadAgentId(paths.idFile, hostname);
  const logPatterns = new LogPatterns(clock);
  const otlp = stack.use(
    new OtlpIntake({
      config: config.otlp,
      doors: { listen: startOtlpServers, connect: createOtlpClient },
      patterns: logPatterns.intake,
      ...(options.onOtlpLoad && { onLoad: options.onOtlpLoad }),
      clock,
      log: log.child("otlp"),
    }),
  );
  const store = await openHealingStore(engine, {
    file: paths.databaseFile,
    signals,
    segments: {
      signals: segmentSignals,
      directory: dirname(paths.databaseFile),
      maxBytes: config.store.maxSegmentBytes,
      seal: otlp.pool.seal,
      sealConcurrency: config.otlp.workers,
    },
    maxBytes: config.store.maxSizeBytes,
    clock,
    log: log.child("store"),
    onRenewed: () => link.reconnect(),
    beforePrune: (_signal, range) => auditLog.beforePrune(range),
  });
  stack.defer(() => store.close());
  reportRecovery(store, log);
  const auditLog = stack.use(
    await AuditLog.open({
      store,
      journalFile: `${paths.directory}/audit-journal.jsonl`,
      owner,
      headFile: `${paths.directory}/audit-head.json`,
      redaction: () => redactionOf(config),
      clock,
      log: log.child("audit"),
    }),
  );
  await logPatterns.load(store);
  const logTails = stack.use(
    new LogTails({
      services: () => config.logs,
      segments: () => store.segments,
      file: `${paths.directory}/log-positions.json`,
      owner,
      hostName: hostname,
      clock,
      log: log.child("logs"),
    }),
  );

  const description = new SelfDescription({
    version,
    machine,
    store,
    config: () => config,
    capabilities: () => [...options.capabilities, trafficCapability(traffic.collector.readings()), kernel.capability()],
    runtime: () => runtime,
    clock,
  });
  const queries = new QueryService(store, clock);
  const link = new ColonyLink({
    agentId,
    identityDirectory: paths.identityDirectory,
    owner,
    colonyId: config.colony.id,
    endpoint: config.colony.endpoint,
    locateColony: options.locateColony,
    obtainToken: options.obtainToken,
    describe: () => description.describe(),
    isBusy: () => traffic.collector.captures.running > 0 || commands.running > 0,
    files: (name) => findSegmentFile(store, name),
    routes: (router, sessionId) =>
      addAgentService(router, {
        agentId,
        sessionId,
        store,
        captures: traffic.captures,
        queries,
        audit: auditLog,
        runtime: watch,
        commands,
        clock,
      }),
    endpointMemory: rememberEndpointIn(`${paths.identityDirectory}/endpoint`),
    clock,
    log: log.child("link"),
  });

  const managed = await openManaged({
    file: `${paths.directory}/services.json`,
    owner,
    store,
    settings: () => config.healthChecks,
    clock,
    log: log.child("services"),
  });
  const pods = createPods(options, hostname);
  const kernel = createKernelConnections({
    isWanted: () => ["auto", "ebpf"].includes(config.serviceDiscovery.backend),
    mark: (phase, mark) => traffic.collector.markScan(phase, mark),
    onNews: () => collectors.connectionsArrived(),
    onNewPeer: () => collectors.lookSoon(),
    clock,
    log: log.child("connections"),
  });
  const traffic = openTraffic({
    store,
    audit: auditLog,
    config: () => config.traffic,
    hostname,
    ...(options.ownPids ? { ownPids: options.ownPids } : {}),
    ...(options.superviseTraffic ? { supervise: options.superviseTraffic } : {}),
    rescan: () => collectors.lookSoon(),
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
    config: () => config,
    managed: managed.services,
    traffic: traffic.names,
    watcher: traffic.watcher,
    kernel,
    ...(pods ? { pods } : {}),
  });
  const runtime = await openRuntimeReporter(
    options,
    () => config,
    () => traffic.collector.readings(),
    stopped.signal,
  );
  const watch = new RuntimeWatch({ reporter: runtime, link, description, clock, log: log.child("runtime") });
  const commands = stack.use(
    openCommands({
      config: () => config,
      directory: paths.directory,
      audit: auditLog,
      colony: link,
      pidsOf: traffic.pidsOf,
      servicesOf: traffic.servicesOf,
      runtime: () => runtime.current(),
      onLaunched: ({ pid, name }) => managed.launched.add(pid, name, () => collectors.rescan()),
      onLoad: (isBusy) => options.onCommandLoad?.(isBusy),
      clock,
      log: log.child("commands"),
    }),
  );
  const metricIntake = new MetricIntake({ store, clock });
  const scraper = new Scraper({ config: () => config.scrape, intake: metricIntake, clock, log: log.child("scrape") });
  const status = {
    agentId,
    version,
    hostname,
    store,
    link,
    managed: managed.services,
    facts: managed.facts,
    traffic: () => traffic.collector.readings(),
    otlp: () => otlp.status(),
    notes: () => [
      ...managed.notes(),
      ...collectors.notes(),
      ...scraper.notes(),
      ...logTails.notes(),
      ...(pods?.problem ? [pods.problem] : []),
    ],
    capabilities: options.capabilities,
    runtime: () => runtime.current(),
    directory: paths.dataDirectory,
    clock,
    startedAtMs: clock.wallMs(),
    startedMonotonicMs: clock.monotonicMs(),
  };
  const http = createAgentHttp({
    status,
    managed,
    collectors,
    watch,
    commands,
    audit: auditLog,
    otlp,
    metricIntake,
    signal: stopped.signal,
    log: log.child("http"),
  });
  const server = stack.use(await startHealthServer({ ...config.listen, portSearch: options.portSearch, http, log: log.child("http") }));
  const control = stack.use(
    await startControlServer({
      path: paths.socketFile,
      peerCredentials: options.peerCredentials,
      http,
      log: log.child("control"),
      ...ownerOf(owner),
    }),
  );
  await otlp.start({ segments: () => store.segments, storeMetrics: (points) => metricIntake.store(points) });
  stack.defer(() => otlp.stop());
  await traffic.collector.reconfigure();
  const parts = { store, link, managed, collectors, watch, pods, scraper, metricIntake, logTails, logPatterns, clock, log };
  const loops = runAgentLoops({ ...parts, config: () => config }, stopped.signal);
  stack.defer(async () => {
    stopped.abort();
    await Promise.allSettled(loops);
  });
  return {
    agentId,
    url: `http://${server.host}:${server.port}`,
    socketFile: control.path,
    reload: (next) => {
      const fixed = needsRestart(config, next);
      // The colony learns them when this agent registers.
      const isToldAnew = saidOf(config) !== saidOf(next);
      const before = watch.current();
      config = { ...next, listen: config.listen, store: config.store, colony: config.colony, otlp: config.otlp };
      if (next.runtime.refreshOnConfig) background(log, "Looking where this agent runs", watch.refresh("config", stopped.signal, before));
      if (isToldAnew) background(log, "Telling what has changed", watch.tell("config", stopped.signal));
      background(log, "The change of the traffic process", traffic.collector.reconfigure());
      return fixed;
    },
    [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose](),
  };
}

/** Only inside a cluster, and only when the config wants pods' labels. */
function createPods({ config, fetchClusterJson, log }: AgentOptions, hostname: string): KubernetesPods | undefined {
  const isWanted = process.env["KUBERNETES_SERVICE_HOST"] !== undefined && config.serviceDiscovery.names.kubernetesLabel !== null;
  if (!isWanted || !fetchClusterJson) return undefined;
  return createKubernetesPods({ fetchJson: fetchClusterJson, env: process.env, hostname, log: log.child("pods") });
}

function reportRecovery(store: AgentStore, log: Logger): void {
  if (store.opened.how !== "recovered") return;
  log.error(`The store was damaged (${store.opened.reason}) and was started anew; the damaged file is kept`, {
    movedTo: store.opened.movedTo,
  });
}

function ownerOf(owner: FileOwner | undefined): Pick<ControlServerOptions, "owner" | "ownerUid"> {
  return owner ? { owner, ownerUid: owner.uid } : {};
}

/** What is secret besides what is always taken out. */
function redactionOf({ serviceDiscovery: { redaction } }: AgentConfig): RedactionRules {
  return { names: redaction.names, patterns: redaction.patterns.map((source) => new RegExp(source)) };
}

function needsRestart(before: AgentConfig, after: AgentConfig): string[] {
  const keys = ["listen", "store", "colony", "otlp"] as const;
  return keys.filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]));
}
