/** The colony: takes agents in, pulls their signals, keeps them, answers questions about them. */

import { setMaxListeners } from "node:events";
import { FlowLoad } from "../base/flow-load.ts";
import { ResourceStack } from "../base/resource-stack.ts";
import type { ColonyConfig } from "../config/index.ts";
import type { ColonyStore } from "../store/colony/index.ts";
import { type HttpHandler, openAuthority } from "../transport/index.ts";
import { auditedBackend } from "./audit/audited-backend.ts";
import { type OpenedAudit, openAudit } from "./audit/open-audit.ts";
import { runColonyLoops } from "./colony-loops.ts";
import { createCommands } from "./commands/commands.ts";
import type { ColonyContext, ColonyOptions } from "./core/colony-context.ts";
import { type ColonyMetrics, createColonyMetrics } from "./core/colony-metrics.ts";
import { createAuthorize } from "./http/colony-authorize.ts";
import { createColonyRoutes } from "./http/colony-routes.ts";
import { openColonyData } from "./open-colony-data.ts";
import { openIntake } from "./open-intake.ts";
import { type Members, openMembers } from "./open-members.ts";
import { openWatchers, type Watchers } from "./open-watchers.ts";
import { createColonyBackend } from "./queries/colony-backend.ts";
import { countByHealth, countByKind } from "./registry/count-agents.ts";
import type { TokenStore } from "./registry/token-store.ts";
import { startColonyServers } from "./start-colony-servers.ts";

export interface Colony extends AsyncDisposable {
  /** `host:port`, for agents and the CLI. */
  endpoint: string;
  socketFile: string;
  tokens: TokenStore;
  /** Takes what can change without a restart; names what cannot. */
  reload(config: ColonyConfig): string[];
}

export function startColony(options: ColonyOptions): Promise<Colony> {
  return ResourceStack.assemble((stack) => assemble(options, stack));
}

async function assemble(options: ColonyOptions, stack: ResourceStack): Promise<Colony> {
  const stopping = new AbortController();
  // Every loop and every tunnel waits on it; Node takes more than ten for a leak.
  setMaxListeners(0, stopping.signal);
  const context: ColonyContext = { ...options, writeProblem: "", endpoint: "", stopped: stopping.signal };
  const { clock, log } = context;
  const authority = await openAuthority(context.paths.caDirectory, context.config.id);
  const store = await openColonyData(context, stack);
  const members = await openMembers(context, store, authority);
  const { registry } = members;
  const metrics = metricsOf(context, store, members);
  const audit = await openAuditOf(context, store, members);
  stack.use(audit.recorder);
  const intake = await openIntake(context, { store, registry, audit, metrics }, stack);
  const watchers = await openWatchers(context, store, metrics, stack);
  const http = answersOf(context, { store, members, metrics, audit, watchers });
  const { server, control, certificate, tunnels } = await startColonyServers(context, { members, intake, http }, stack);
  const loops = runColonyLoops(
    { store, registry, audit, ...watchers, inbox: intake.inbox, certificate, onCertificate: () => server.reloadTls(), clock, log },
    context.stopped,
  );
  stack.defer(async () => {
    stopping.abort();
    await Promise.allSettled([...loops, ...tunnels]);
    // A full disk must not keep the colony from closing; the contacts are a convenience.
    await registry.flush(true).catch((error: unknown) => log.warn("Cannot write the last contacts", { error }));
  });
  return {
    endpoint: context.endpoint,
    socketFile: control.path,
    tokens: members.tokens,
    reload: (next) => {
      watchers.names.reconfigure(next.serviceDiscovery.externalResolution);
      Object.assign(members.thresholds, next.health);
      return takeConfig(context, next);
    },
    [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose](),
  };
}

function metricsOf({ config }: ColonyContext, store: ColonyStore, { registry, runtimes }: Members): ColonyMetrics {
  return createColonyMetrics({
    agentsByHealth: () => countByHealth(registry),
    agentKinds: { colonyId: config.id, read: () => countByKind(registry, runtimes) },
    storeBytes: async () => {
      const { usedBytes, walBytes } = await store.database.size();
      return usedBytes + walBytes;
    },
  });
}

function openAuditOf(context: ColonyContext, store: ColonyStore, { registry }: Members): Promise<OpenedAudit> {
  const { paths, owner, clock, log } = context;
  const journalFile = `${paths.dataDirectory}/audit-journal.jsonl`;
  return openAudit({ journalFile, owner, store, registry, config: () => context.config, clock, log: log.child("audit") });
}

interface KnowingParts {
  store: ColonyStore;
  members: Members;
  metrics: ColonyMetrics;
  audit: OpenedAudit;
  watchers: Watchers;
}

/** Answers questions and runs commands, for whoever may, and writes down who asked. */
function answersOf(context: ColonyContext, { store, members, metrics, audit, watchers }: KnowingParts): HttpHandler {
  const { paths, version, clock, log } = context;
  const { registry, runtimes, tokens } = members;
  const { discovery, deployments, names } = watchers;
  const commands = createCommands({
    registry,
    audit: audit.recorder,
    approvals: audit.approvals,
    load: new FlowLoad((isBusy) => context.onCommandLoad?.(isBusy)),
    log: log.child("commands"),
  });
  const facts = createColonyBackend({
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
    writeProblem: () => context.writeProblem,
    discovery,
    deployments,
    commands,
    audit: audit.backend,
    nameProblems: () => names.problems(),
    clock,
    log: log.child("backend"),
  });
  return createColonyRoutes({
    backend: auditedBackend(facts, { recorder: audit.recorder, queries: audit.queries, log: log.child("audit") }),
    commands,
    authorize: createAuthorize(tokens),
    metrics,
    notReady: () => (context.endpoint === "" ? "starting" : undefined),
    version,
    log: log.child("http"),
  });
}

/** What a change of needs a restart, as the config file calls it. */
const fixedKeys = { id: "id", listen: "listen", store: "store", retentionMs: "retention", otlp: "otlp" } as const;

/** Takes the config but for what is fixed; names what of that has changed. */
function takeConfig(context: ColonyContext, next: ColonyConfig): string[] {
  const before = context.config;
  const { id, listen, store, retentionMs, otlp } = before;
  context.config = { ...next, id, listen, store, retentionMs, otlp };
  return (Object.keys(fixedKeys) as (keyof typeof fixedKeys)[])
    .filter((key) => JSON.stringify(before[key]) !== JSON.stringify(next[key]))
    .map((key) => fixedKeys[key]);
}
