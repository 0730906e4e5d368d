/** The colony: registers agents, pulls and stores their signals, and answers queries about them. */

import { setMaxListeners } from "node:events";
import { FlowLoad } from "../base/flow-load.ts";
import { ResourceStack } from "../base/resource-stack.ts";
import type { ColonyConfig } from "../config/index.ts";
import type { ColonyStore } from "../store/colony/index.ts";
import type { ColonyBackend } from "../tools/index.ts";
import { type HttpHandler, openAuthority } from "../transport/index.ts";
import { type OpenedAudit, openAudit } from "./audit/open-audit.ts";
import { withAudit } from "./audit/with-audit.ts";
import { runColonyLoops } from "./colony-loops.ts";
import { createCommands } from "./commands/commands.ts";
import type { ColonyContext, ColonyOptions } from "./core/colony-context.ts";
import type { ColonyMetrics } from "./core/colony-metrics.ts";
import { StoreWrites } from "./core/store-writes.ts";
import { createAuthorize } from "./http/colony-authorize.ts";
import { createColonyRoutes } from "./http/colony-routes.ts";
import { openColonyData } from "./open-colony-data.ts";
import { openIncidents } from "./open-incidents.ts";
import { openIntake } from "./open-intake.ts";
import { type Members, openMembers } from "./open-members.ts";
import { openMetrics } from "./open-metrics.ts";
import { openWatchers, type Watchers } from "./open-watchers.ts";
import { createColonyBackend } from "./queries/colony-backend.ts";
import type { TokenStore } from "./registry/token-store.ts";
import { startColonyServers } from "./start-colony-servers.ts";

export interface Colony extends AsyncDisposable {
  /** `host:port`, for agents and the CLI. */
  endpoint: string;
  socketFile: string;
  tokens: TokenStore;
  /** Applies what can change without a restart; returns the changed keys that need one. */
  reload(config: ColonyConfig): string[];
}

export function startColony(options: ColonyOptions): Promise<Colony> {
  return ResourceStack.assemble((stack) => assemble(options, stack));
}

async function assemble(options: ColonyOptions, stack: ResourceStack): Promise<Colony> {
  const stopping = new AbortController();
  // Every loop and tunnel listens to it; Node would report more than ten listeners as a leak.
  setMaxListeners(0, stopping.signal);
  const context: ColonyContext = { ...options, writes: new StoreWrites(options), endpoint: "", stopped: stopping.signal };
  const { clock, log } = context;
  const authority = await openAuthority(context.paths.caDirectory, context.config.id);
  const store = await openColonyData(context, stack);
  const members = await openMembers(context, store, authority);
  const { registry } = members;
  const metrics = openMetrics(context, store, members);
  const audit = await openAuditFor(context, store, members);
  stack.use(audit.recorder);
  const clockDifferenceMs = (agentId: string): number | null => registry.find(agentId)?.clockDifferenceMs ?? null;
  const watchers = await openWatchers(context, { store, metrics, clockDifferenceMs }, stack);
  const onInstances = (): void => watchers.discovery.wake();
  const intake = await openIntake(context, { store, registry, audit, metrics, onInstances }, stack);
  const { http, backend } = createHttp(context, { store, members, metrics, audit, watchers });
  const watches = openIncidents(context, { store, backend, services: watchers.services });
  const { server, control, certificate, tunnels } = await startColonyServers(context, { members, intake, http }, stack);
  const loops = runColonyLoops(
    {
      store,
      writes: context.writes,
      registry,
      audit,
      ...watchers,
      ...watches,
      inbox: intake.inbox,
      certificate,
      onCertificate: () => server.reloadTls(),
      clock,
      log,
    },
    context.stopped,
  );
  stack.defer(async () => {
    stopping.abort();
    await Promise.allSettled([...loops, ...tunnels]);
    // A full disk must not block shutdown; last contacts are only informational.
    await registry.flush(true).catch((error: unknown) => log.warn("Cannot write the last contacts at shutdown", { error }));
  });
  return {
    endpoint: context.endpoint,
    socketFile: control.path,
    tokens: members.tokens,
    reload: (next) => {
      watchers.names.reconfigure(next.serviceDiscovery.externalResolution);
      Object.assign(members.thresholds, next.health);
      return applyConfig(context, next);
    },
    [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose](),
  };
}

function openAuditFor(context: ColonyContext, store: ColonyStore, { registry }: Members): Promise<OpenedAudit> {
  const { paths, owner, clock, log } = context;
  const journalFile = `${paths.dataDirectory}/audit-journal.jsonl`;
  const { id: colonyId } = context.config;
  return openAudit({ journalFile, colonyId, owner, store, registry, config: () => context.config, clock, log: log.child("audit") });
}

interface HttpParts {
  store: ColonyStore;
  members: Members;
  metrics: ColonyMetrics;
  audit: OpenedAudit;
  watchers: Watchers;
}

/** The HTTP handler: authorized queries and commands, recorded in the audit. */
function createHttp(
  context: ColonyContext,
  { store, members, metrics, audit, watchers }: HttpParts,
): { http: HttpHandler; backend: ColonyBackend } {
  const { paths, version, clock, log } = context;
  const { registry, runtimes, tokens } = members;
  const { discovery, deployments, names, services } = watchers;
  const commands = createCommands({
    registry,
    audit: audit.recorder,
    approvals: audit.approvals,
    serviceId: async (service) => (await services.names()).textsOf(service)[0] ?? service,
    load: new FlowLoad((isBusy) => context.onCommandLoad?.(isBusy)),
    log: log.child("commands"),
  });
  const backend = createColonyBackend({
    store,
    registry,
    runtimes,
    tokens,
    config: () => context.config,
    databaseFile: paths.databaseFile,
    version,
    startedAtMs: clock.wallMs(),
    startedMonotonicMs: clock.monotonicMs(),
    endpoints: () => [`https://${context.endpoint}`, `unix:${paths.socketFile}`],
    writeProblem: () => context.writes.problem,
    discovery,
    services,
    deployments,
    commands,
    audit: audit.backend,
    nameProblems: () => names.problems(),
    clock,
    log: log.child("backend"),
  });
  const http = createColonyRoutes({
    backend: withAudit(backend, { recorder: audit.recorder, queries: audit.queries, log: log.child("audit") }),
    commands,
    authorize: createAuthorize(tokens),
    metrics,
    notReady: () =>
      context.endpoint === "" ? "starting" : context.writes.problem === "" ? undefined : `cannot store rows: ${context.writes.problem}`,
    version,
    log: log.child("http"),
  });
  return { http, backend };
}

/** Config fields that need a restart, with their keys in the config file. */
const fixedKeys = { id: "id", listen: "listen", store: "store", retentionMs: "retention", otlp: "otlp" } as const;

/** Applies the config except for `fixedKeys`; returns those of them that changed. */
function applyConfig(context: ColonyContext, next: ColonyConfig): string[] {
  const before = context.config;
  const { id, listen, store, retentionMs, otlp } = before;
  context.config = { ...next, id, listen, store, retentionMs, otlp };
  return (Object.keys(fixedKeys) as (keyof typeof fixedKeys)[])
    .filter((key) => JSON.stringify(before[key]) !== JSON.stringify(next[key]))
    .map((key) => fixedKeys[key]);
}
