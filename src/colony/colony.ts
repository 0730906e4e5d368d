/** The colony: takes agents in, pulls their signals, keeps them, answers questions about them. */

import { setMaxListeners } from "node:events";
import { join } from "node:path";
import { background } from "../base/background.ts";
import type { Clock } from "../base/clock.ts";
import { CoralError } from "../base/errors.ts";
import { FlowLoad } from "../base/flow-load.ts";
import type { Logger } from "../base/log.ts";
import { ResourceStack } from "../base/resource-stack.ts";
import type { ColonyConfig, ColonyPaths, FileOwner } from "../config/index.ts";
import { type ColonyServer, type ControlServerOptions, openAuthority, startColonyServer, startControlServer } from "../mesh/index.ts";
import { addOtlpMetrics } from "../otlp/index.ts";
import {
  type ColonyStore,
  derivedSignals,
  type Engine,
  loadEndpointNames,
  openColonyStore,
  type ResolvedEndpoint,
  segmentSignals,
  signals,
  storeEndpointNames,
} from "../store/index.ts";
import { AgentRegistry } from "./agent-registry.ts";
import { auditedBackend } from "./audited-backend.ts";
import { createAuthorize } from "./colony-authorize.ts";
import { createColonyBackend } from "./colony-backend.ts";
import { runColonyLoops } from "./colony-loops.ts";
import { createColonyMetrics } from "./colony-metrics.ts";
import { createColonyRoutes } from "./colony-routes.ts";
import { addColonyService } from "./colony-service.ts";
import { createCommands } from "./commands.ts";
import { countByHealth, countByKind } from "./count-agents.ts";
import { DeploymentWatch } from "./deployment-watch.ts";
import { DiscoveryLoop } from "./discovery-loop.ts";
import { createEndpointNames, type StoredEndpointName } from "./endpoint-names/create-endpoint-names.ts";
import { Ingest } from "./ingest.ts";
import { openAudit } from "./open-audit.ts";
import { openInbox } from "./open-inbox.ts";
import { createOwnCertificate } from "./own-certificate.ts";
import { PullScheduler } from "./pull-scheduler.ts";
import { Revocations } from "./revocations.ts";
import { RuntimeBook } from "./runtime-book.ts";
import { SegmentPuller } from "./segment-puller.ts";
import { TokenBook } from "./token-book.ts";
import { answersHello, hostTunnel } from "./tunnel-host.ts";

export interface ColonyOptions {
  config: ColonyConfig;
  paths: ColonyPaths;
  engine: Engine;
  version: string;
  owner: FileOwner | undefined;
  peerCredentials: ControlServerOptions["peerCredentials"];
  /** Ports to try after a taken one. */
  portSearch: number;
  /** Told when so much OTLP comes that being fast is worth memory, and when that is over. */
  onOtlpLoad?: (isBusy: boolean) => void;
  /** The same, for the output of commands. */
  onCommandLoad?: (isBusy: boolean) => void;
  clock: Clock;
  log: Logger;
}

export interface Colony extends AsyncDisposable {
  /** `host:port`, for agents and the CLI. */
  endpoint: string;
  socketFile: string;
  tokens: TokenBook;
  /** Takes what can change without a restart; names what cannot. */
  reload(config: ColonyConfig): string[];
}

/** Rows are on their way this long at the most: a window of requests, and two pulls. */
const deploymentLagMs = 10_000;

export function startColony(options: ColonyOptions): Promise<Colony> {
  return ResourceStack.assemble((stack) => assemble(options, stack));
}

async function assemble(options: ColonyOptions, stack: ResourceStack): Promise<Colony> {
  const { paths, engine, version, owner, clock, log } = options;
  const state = { config: options.config, writeProblem: "" };
  const stopped = new AbortController();
  // Every loop and every tunnel waits on it; Node takes more than ten for a leak.
  setMaxListeners(0, stopped.signal);
  const authority = await openAuthority(paths.caDirectory, state.config.id);
  const store = await openColonyStore(engine, {
    file: paths.databaseFile,
    signals: withRetention([...signals, ...derivedSignals], state.config),
    maxBytes: state.config.store.maxSizeBytes,
    segments: {
      signals: withRetention(segmentSignals, state.config),
      directory: paths.dataDirectory,
      maxBytes: state.config.store.maxSegmentBytes,
    },
    clock,
    log: log.child("store"),
  });
  stack.defer(() => store.close());

  const thresholds = { ...state.config.health };
  const revocations = await Revocations.open(`${paths.caDirectory}/revoked`);
  const runtimes = await RuntimeBook.open({ store, clock, log: log.child("registry") });
  const registry = await AgentRegistry.open({
    store,
    revocations,
    runtimes,
    clock,
    thresholds,
    log: log.child("registry"),
    isAlive: answersHello,
  });
  let server: ColonyServer | undefined;
  const endpoint = (): string => (server ? joinHostPort(server.host, server.port) : "");
  const advertised = (): string[] => (state.config.advertise.length > 0 ? state.config.advertise : [endpoint()]);
  const tokens = new TokenBook({ store, clock, colonyId: state.config.id, caFingerprint: authority.fingerprint, endpoints: advertised });
  const metrics = createColonyMetrics({
    agentsByHealth: () => countByHealth(registry),
    agentKinds: { colonyId: state.config.id, read: () => countByKind(registry, runtimes) },
    storeBytes: async () => {
      const { usedBytes, walBytes } = await store.database.size();
      return usedBytes + walBytes;
    },
  });
  const audit = await openAudit({
    journalFile: `${paths.dataDirectory}/audit-journal.jsonl`,
    owner,
    store,
    registry,
    config: () => state.config,
    clock,
    log: log.child("audit"),
  });
  stack.use(audit.book);
  const scheduler = new PullScheduler({
    store,
    ingest: new Ingest(watched(store, state)),
    signals: signals.map((signal) => signal.name),
    settings: () => state.config.pull,
    auditHead: () => audit.book.head,
    clock,
    log: log.child("pull"),
    metrics,
    onContact: (agentId, lagMs) => registry.contact(agentId, lagMs),
  });
  const segmentPuller =
    store.segments &&
    new SegmentPuller({
      segments: store.segments,
      signals: segmentSignals.map((signal) => signal.name),
      settings: () => state.config.pull,
      metrics,
      log: log.child("segments"),
    });
  const inbox = store.segments && state.config.otlp.enabled ? await openInbox(options, store.segments, store) : undefined;
  if (inbox) {
    stack.use(inbox);
    addOtlpMetrics(metrics.registry, () => inbox.status());
  }
  const names = stack.use(
    await createEndpointNames({
      settings: state.config.serviceDiscovery.externalResolution,
      rangesDirectory: join(paths.directory, "ranges"),
      store: {
        load: async () => (await loadEndpointNames(store)).map(storedName),
        save: (rows) => storeEndpointNames(store, rows.map(resolvedEndpoint)),
      },
      clock,
      log: log.child("names"),
    }),
  );
  const discovery = new DiscoveryLoop({
    store,
    config: () => state.config.serviceDiscovery,
    names,
    clock,
    log: log.child("discovery"),
    metrics,
  });
  const commands = createCommands({
    registry,
    audit: audit.book,
    approvals: audit.approvals,
    load: new FlowLoad((isBusy) => options.onCommandLoad?.(isBusy)),
    log: log.child("commands"),
  });
  const deployments = new DeploymentWatch({
    store,
    settings: () => ({
      windowMs: state.config.deployments.windowMs,
      lagMs: Math.min(deploymentLagMs, state.config.deployments.windowMs / 60) + 2 * state.config.pull.intervalMs,
    }),
    clock,
    log: log.child("deployments"),
  });
  const facts = createColonyBackend({
    store,
    registry,
    runtimes,
    tokens,
    config: () => state.config,
    databaseFile: paths.databaseFile,
    version,
    startedAtMs: clock.wallMs(),
    startedMonotonicMs: clock.monotonicMs(),
    endpoints: () => [`https://${endpoint()}`, `unix:${paths.socketFile}`],
    writeProblem: () => state.writeProblem,
    discovery,
    deployments,
    commands,
    audit: audit.backend,
    nameProblems: () => names.problems(),
    clock,
    log: log.child("backend"),
  });
  const backend = auditedBackend(facts, { book: audit.book, queries: audit.queries, log: log.child("audit") });
  const http = createColonyRoutes({
    backend,
    commands,
    authorize: createAuthorize(tokens),
    metrics,
    notReady: () => (server ? undefined : "starting"),
    version,
    log: log.child("http"),
  });

  const certificate = await createOwnCertificate(authority);
  const tunnels = new Set<Promise<void>>();
  server = stack.use(
    await startColonyServer({
      ...state.config.listen,
      portSearch: options.portSearch,
      colonyId: state.config.id,
      tls: () => certificate.current(),
      routes: (router) =>
        addColonyService(router, {
          colonyId: state.config.id,
          name: state.config.name,
          environment: state.config.environment,
          authority,
          tokens,
          registry,
          agentTtlMs: () => state.config.certificates.agentTtlMs,
          pullIntervalMs: () => state.config.pull.intervalMs,
          registration: () => state.config.registry,
          clock,
          log: log.child("agents"),
        }),
      http,
      onTunnel: (tunnel) => {
        const hosted = hostTunnel(tunnel, { registry, scheduler, segmentPuller, log: log.child("agents"), signal: stopped.signal });
        tunnels.add(hosted);
        background(
          log,
          "Tunnel",
          hosted.finally(() => tunnels.delete(hosted)),
        );
      },
      isRevoked: (agentId) => registry.isRevoked(agentId),
      nowMs: () => clock.wallMs(),
      log: log.child("server"),
    }),
  );
  const control = stack.use(
    await startControlServer({
      path: paths.socketFile,
      peerCredentials: options.peerCredentials,
      http,
      log: log.child("control"),
      ...(owner ? { owner, ownerUid: owner.uid } : {}),
    }),
  );
  const loops = runColonyLoops(
    { store, registry, audit, discovery, deployments, inbox, certificate, onCertificate: () => server?.reloadTls(), clock, log },
    stopped.signal,
  );
  stack.defer(async () => {
    stopped.abort();
    await Promise.allSettled([...loops, ...tunnels]);
    // A full disk must not keep the colony from closing; the contacts are a convenience.
    await registry.flush(true).catch((error: unknown) => log.warn("Cannot write the last contacts", { error }));
  });
  return {
    endpoint: endpoint(),
    socketFile: control.path,
    tokens,
    reload: (next) => {
      const fixed = needsRestart(state.config, next);
      names.reconfigure(next.serviceDiscovery.externalResolution);
      Object.assign(thresholds, next.health);
      state.config = {
        ...next,
        id: state.config.id,
        listen: state.config.listen,
        store: state.config.store,
        retentionMs: state.config.retentionMs,
        otlp: state.config.otlp,
      };
      return fixed;
    },
    [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose](),
  };
}

const resolvedEndpoint = (name: StoredEndpointName): ResolvedEndpoint => ({ ...name });
const storedName = (name: ResolvedEndpoint): StoredEndpointName => ({ ...name, method: name.method as StoredEndpointName["method"] });

/** The signals with the ages that the config sets. */
function withRetention<S extends (typeof signals)[number] | (typeof segmentSignals)[number]>(
  declared: readonly S[],
  config: ColonyConfig,
): S[] {
  return declared.map((signal) => {
    const maxAgeMs = config.retentionMs[signal.name];
    if (maxAgeMs === undefined) return signal;
    return { ...signal, retention: { ...signal.retention, colony: { ...signal.retention.colony, maxAgeMs } } };
  });
}

/** Remembers why the last write failed, for status; nothing else changes. */
function watched(store: ColonyStore, state: { writeProblem: string }): Pick<ColonyStore, "applyPulls"> {
  return {
    applyPulls: async (pulls) => {
      try {
        const outcomes = await store.applyPulls(pulls);
        state.writeProblem = "";
        return outcomes;
      } catch (error) {
        state.writeProblem = CoralError.from(error).message;
        throw error;
      }
    },
  };
}

function needsRestart(before: ColonyConfig, after: ColonyConfig): string[] {
  const keys = { id: "id", listen: "listen", store: "store", retentionMs: "retention", otlp: "otlp" } as const;
  return (Object.keys(keys) as (keyof typeof keys)[])
    .filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]))
    .map((key) => keys[key]);
}

function joinHostPort(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
