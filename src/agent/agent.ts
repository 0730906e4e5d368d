/** The agent: collectors fill the store, the link keeps the colony able to pull from it, the control socket answers the local CLI. */

import { setMaxListeners } from "node:events";
import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { background } from "../base/background.ts";
import type { Clock } from "../base/clock.ts";
import { CoralError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { RedactionRules } from "../base/redact-line.ts";
import { repeat } from "../base/repeat.ts";
import { ResourceStack } from "../base/resource-stack.ts";
import { type CapabilityFact, runtimeProtocolVersion } from "../base/runtime-facts.ts";
import { type AgentConfig, type AgentPaths, type FileOwner, writePrivateFile } from "../config/index.ts";
import { createHostReader } from "../host/index.ts";
import {
  type Authorize,
  type ControlServerOptions,
  createHttpRoutes,
  createOtlpClient,
  runtimeToWire,
  startControlServer,
  startHealthServer,
  startOtlpServers,
} from "../mesh/index.ts";
import { addMetricIntakeMetrics, MetricIntake, OtlpIntake } from "../otlp/index.ts";
import { type AgentStore, type Engine, segmentSignals, signals } from "../store/index.ts";
import { loadAgentId } from "./agent-id.ts";
import { createAgentMetrics } from "./agent-metrics.ts";
import { agentRoutes } from "./agent-routes.ts";
import { addAgentService } from "./agent-service.ts";
import { type AgentStatusSources, readAgentStatus } from "./agent-status.ts";
import { AuditLog } from "./audit-log.ts";
import { auditRoutes } from "./audit-routes.ts";
import { runCollectLoop } from "./collect-loop.ts";
import { createCollectors } from "./collectors.ts";
import { ColonyLink } from "./colony-link.ts";
import { commandRoute } from "./command-route.ts";
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
import { SteadyChange } from "./steady-change.ts";
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

const pruneIntervalMs = 60_000;
const lossIntervalMs = 60_000;
const patternIntervalMs = 60_000;
const tailIntervalMs = 500;
const podIntervalMs = 60_000;
const capabilityIntervalMs = 2_000;
/** The traffic process may be away for a moment and come back. */
const capabilityHoldMs = 10_000;

export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { paths, engine, clock, log, version, owner } = options;
  const stack = new ResourceStack();
  try {
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

    const capabilities = () => [...options.capabilities, trafficCapability(traffic.collector.readings()), kernel.capability()];
    const toldNow = (): string => JSON.stringify([capabilities(), runtime.fingerprint(), saidOf(config)]);
    const capabilityChange = new SteadyChange(capabilityHoldMs);
    const queries = new QueryService(store, clock);
    const link = new ColonyLink({
      agentId,
      identityDirectory: paths.identityDirectory,
      owner,
      colonyId: config.colony.id,
      endpoint: config.colony.endpoint,
      locateColony: options.locateColony,
      obtainToken: options.obtainToken,
      describe: () => {
        capabilityChange.tell(toldNow());
        return {
          protocolVersion: runtimeProtocolVersion,
          version,
          host: machine,
          epoch: store.epoch,
          labels: config.labels,
          capabilities: capabilities(),
          wallMs: BigInt(Math.round(clock.wallMs())),
          outsideNames: outsideNames(config),
          ...(config.runtime.isReported ? { runtimeContext: runtimeToWire(runtime.current()) } : {}),
        };
      },
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
      endpointMemory: rememberIn(`${paths.identityDirectory}/endpoint`),
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
    const watch = new RuntimeWatch({ reporter: runtime, link, change: capabilityChange, toldNow, clock, log: log.child("runtime") });
    const commands = stack.use(
      openCommands({
        config: () => config,
        directory: paths.directory,
        audit: auditLog,
        colony: link,
        pidsOf: traffic.pidsOf,
        servicesOf: traffic.servicesOf,
        podScope: () => runtime.current().runtimeType === "k8s-sidecar",
        onLaunched: ({ pid, name }) => managed.launched.add(pid, name, () => collectors.rescan()),
        onLoad: (isBusy) => options.onCommandLoad?.(isBusy),
        clock,
        log: log.child("commands"),
      }),
    );
    const metricIntake = new MetricIntake({ store, clock });
    const scraper = new Scraper({ config: () => config.scrape, intake: metricIntake, clock, log: log.child("scrape") });
    const sources: AgentStatusSources = {
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
    const metrics = createAgentMetrics(
      store,
      link,
      () => traffic.collector.readings(),
      () => otlp.status(),
    );
    addMetricIntakeMetrics(metrics, () => metricIntake.counts);
    const handler = createHttpRoutes({
      routes: [
        ...agentRoutes({
          status: () => readAgentStatus(sources),
          runtime: watch,
          signal: stopped.signal,
          book: managed.book,
          healthOf: (port) => managed.services.healthOf(port),
          discoveredAt: (port, protocol) => managed.facts.discoveredAt(port, protocol),
          onChange: () => {
            managed.checks.refresh();
            collectors.rescan();
          },
        }),
        commandRoute({ agentId, hostname }, commands),
        ...auditRoutes({ agentId, hostname, log: auditLog, store, clock }),
      ],
      // The agent has no tokens of its own: only its owner, on the unix socket, may ask.
      authorize: localOnly,
      notReady: () => undefined,
      metrics: () => metrics.text(),
      log: log.child("http"),
    });
    const server = stack.use(
      await startHealthServer({ ...config.listen, portSearch: options.portSearch, http: handler, log: log.child("http") }),
    );
    const control = stack.use(
      await startControlServer({
        path: paths.socketFile,
        peerCredentials: options.peerCredentials,
        http: handler,
        log: log.child("control"),
        ...ownerOf(owner),
      }),
    );
    await otlp.start({ segments: () => store.segments, storeMetrics: (points) => metricIntake.store(points) });
    stack.defer(() => otlp.stop());
    await traffic.collector.reconfigure();
    const loops = [
      link.run(stopped.signal),
      managed.checks.run(stopped.signal, () => collectors.rescan()),
      ...collectors.run(stopped.signal),
      repeat("Telling what this agent can do", capabilityIntervalMs, () => watch.tellWhenDue(stopped.signal), log, stopped.signal),
      watch.run(() => config.runtime.refreshIntervalMs, stopped.signal),
      ...(pods ? [repeat("Pod labels", podIntervalMs, () => pods.refresh(stopped.signal), log, stopped.signal)] : []),
      runCollectLoop(
        {
          name: "metrics of targets",
          intervalMs: () => config.scrape.intervalMs,
          collect: (signal) => scraper.collect(signal),
          clock,
          log: log.child("scrape"),
        },
        stopped.signal,
      ),
      repeat("Losses of metrics", lossIntervalMs, () => metricIntake.tellLosses(), log, stopped.signal),
      repeat("Reading logs", tailIntervalMs, () => logTails.round(), log, stopped.signal),
      repeat("Patterns of logs", patternIntervalMs, () => logPatterns.endWindow(store), log, stopped.signal),
      repeat("Retention", pruneIntervalMs, () => store.prune(), log, stopped.signal),
    ];
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
  } catch (error) {
    await stack[Symbol.asyncDispose]();
    throw error;
  }
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

const localOnly: Authorize = (caller) => {
  if (caller.kind === "local") return { name: `local:uid=${caller.uid}` };
  throw new CoralError({ code: "not-permitted", message: "Cannot serve this here: ask on the agent's unix socket, or ask the colony" });
};

function ownerOf(owner: FileOwner | undefined): Pick<ControlServerOptions, "owner" | "ownerUid"> {
  return owner ? { owner, ownerUid: owner.uid } : {};
}

/** What is secret besides what is always taken out. */
function redactionOf({ serviceDiscovery: { redaction } }: AgentConfig): RedactionRules {
  return { names: redaction.names, patterns: redaction.patterns.map((source) => new RegExp(source)) };
}

/** Where the colony was reached last; a small file beside the identity. */
function rememberIn(file: string) {
  return {
    read: async (): Promise<string | undefined> => {
      try {
        return (await readFile(file, "utf8")).trim() || undefined;
      } catch {
        // Never joined, or removed by hand: the link joins again and writes it.
        return undefined;
      }
    },
    write: (endpoint: string): Promise<void> => writePrivateFile(file, `${endpoint}\n`),
  };
}

/** What this agent wants of the names of addresses that it sees; the colony finds them. */
function outsideNames({ serviceDiscovery: { network } }: AgentConfig) {
  return {
    noReverseDns: !network.resolveExternalIps,
    noProviderRanges: !network.detectCloudProviders,
    maxCacheMs: BigInt(network.dnsCacheTtlMs ?? 0),
  };
}

/** What of the config goes into the registration. */
function saidOf(config: AgentConfig): string {
  return JSON.stringify([config.labels, config.serviceDiscovery.network]);
}

function needsRestart(before: AgentConfig, after: AgentConfig): string[] {
  const keys = ["listen", "store", "colony", "otlp"] as const;
  return keys.filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]));
}
