/** The agent: collectors fill the store, the link lets the colony pull from it, the control socket serves the local CLI. */

import { setMaxListeners } from "node:events";
import { background } from "../base/background.ts";
import { ResourceStack } from "../base/resource-stack.ts";
import type { AgentConfig } from "../config/index.ts";
import { createHostReader } from "../host/index.ts";
import type { AgentContext, AgentOptions } from "./agent-context.ts";
import { loadAgentId } from "./agent-id.ts";
import { runAgentLoops } from "./agent-loops.ts";
import { DatabaseService } from "./databases/database-service.ts";
import { type AgentServiceOptions, addAgentService } from "./link/agent-service.ts";
import { ColonyLink, type ColonyLinkOptions, openEndpointFile } from "./link/colony-link.ts";
import { QueryService } from "./link/query-service.ts";
import { RuntimeWatch } from "./link/runtime-watch.ts";
import { findSegmentFile } from "./link/segment-service.ts";
import { registeredConfig, SelfDescription } from "./link/self-description.ts";
import { type AgentData, openAgentData } from "./open-agent-data.ts";
import { openCommands } from "./open-commands.ts";
import { type Observers, openObservers } from "./open-observers.ts";
import { openRuntimeReporter } from "./open-runtime-reporter.ts";
import { profileCapability } from "./profile/profile-status.ts";
import { type AgentParts, startAgentServers } from "./start-agent-servers.ts";
import { trafficCapability } from "./traffic/traffic-status.ts";

/** A running agent. Disposing it stops everything that it started. */
export interface Agent extends AsyncDisposable {
  agentId: string;
  /** `http://127.0.0.1:9001`. */
  url: string;
  socketFile: string;
  /** Applies what can change without a restart; returns the keys that need one. */
  reload(config: AgentConfig): string[];
}

/** Resolves when the servers listen and the loops run. The colony need not be reachable. */
export function startAgent(options: AgentOptions): Promise<Agent> {
  return ResourceStack.assemble((stack) => assemble(options, stack));
}

/** The order matters: the store opens before anything that appends, servers listen before observation starts, and the stack closes in reverse. */
async function assemble(options: AgentOptions, stack: ResourceStack): Promise<Agent> {
  const stopping = new AbortController();
  // Every loop adds a listener; Node warns of a leak above ten.
  setMaxListeners(0, stopping.signal);
  const reader = createHostReader();
  const machine = reader.machine();
  const { hostname } = machine;
  const agentId = await loadAgentId(options.paths.idFile, hostname);
  const context: AgentContext = { ...options, agentId, hostname, reader, machine, stopped: stopping.signal };
  const parts = await openParts(context, stack);
  const { data, observers, link, watch } = parts;
  const { server, control } = await startAgentServers(context, parts, stack);
  await data.otlp.start({ segments: () => data.store.segments, storeMetrics: (points) => data.metricIntake.store(points) });
  stack.defer(() => data.otlp.stop());
  await startObserving(observers, context);
  const { clock, log, stopped } = context;
  const loops = runAgentLoops({ ...data, ...observers, link, watch, config: () => context.config, clock, log }, stopped);
  stack.defer(async () => {
    stopping.abort();
    await Promise.allSettled(loops);
    await observers.observed.stop().catch((error: unknown) => log.warn("cannot record the end of observed time", { error }));
  });
  return {
    agentId,
    url: `http://${server.host}:${server.port}`,
    socketFile: control.path,
    reload: (next) => reload(context, parts, next),
    [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose](),
  };
}

async function startObserving({ observed, traffic, profiles }: Observers, { log }: AgentContext): Promise<void> {
  await traffic.collector.reconfigure();
  await profiles.reconfigure();
  // A full disk must not keep the agent from observing; the store reports it.
  await observed.start().catch((error: unknown) => log.warn("cannot record observed time", { error }));
}

/** Creates the parts of the agent; nothing runs or listens yet. Closures may refer to parts that are created later. */
async function openParts(context: AgentContext, stack: ResourceStack): Promise<AgentParts> {
  const { clock, log } = context;
  const config = (): AgentConfig => context.config;
  const data = await openAgentData(context, () => link.reconnect(), stack);
  const { store, auditLog } = data;
  const description = new SelfDescription({
    version: context.version,
    machine: context.machine,
    store,
    config,
    capabilities: () => [
      ...context.capabilities,
      trafficCapability(traffic.collector.readings()),
      observers.kernel.capability(),
      profileCapability(observers.profiles.readings()),
    ],
    runtime: () => runtime,
    clock,
  });
  const queries = new QueryService(store, clock);
  const link = openLink(context, data, {
    describe: () => description.describe(),
    isBusy: () => traffic.collector.captures.running > 0 || commands.running > 0,
    service: () => ({ captures: traffic.captures, queries, databases, runtime: watch, commands }),
  });
  const requestPull = (): void => background(log, "Requesting a pull", link.requestPull(context.stopped));
  const observers = await openObservers(context, data, stack, requestPull);
  const { traffic, managed, collectors } = observers;
  const databases = await DatabaseService.open({
    file: `${context.paths.directory}/database-credentials.json`,
    owner: context.owner,
    addressesOf: (port) => managed.facts.addressesOf(port),
    audit: (note) => auditLog.note(note),
    clock,
    log: log.child("databases"),
  });
  const runtime = await openRuntimeReporter(context, config, () => traffic.collector.readings(), context.stopped);
  const watch = new RuntimeWatch({ reporter: runtime, link, description, clock, log: log.child("runtime") });
  const commands = stack.use(
    openCommands({
      config,
      directory: context.paths.directory,
      audit: auditLog,
      colony: link,
      pidsOf: traffic.pidsOf,
      servicesOf: traffic.servicesOf,
      nameOf: traffic.nameOf,
      runtime: () => runtime.current(),
      onLaunched: ({ pid, name }) => managed.launched.add(pid, name, () => collectors.rescan()),
      onLoad: (isBusy) => context.onCommandLoad?.(isBusy),
      clock,
      log: log.child("commands"),
    }),
  );
  return { data, observers, link, runtime, watch, commands, databases };
}

interface LinkSources extends Required<Pick<ColonyLinkOptions, "describe" | "isBusy">> {
  /** RPCs besides those of the store and the audit. */
  service: () => Pick<AgentServiceOptions, "captures" | "queries" | "databases" | "runtime" | "commands">;
}

/** The link to the colony: identity, registration, tunnel, and the RPCs that the colony may call through it. */
function openLink(
  context: AgentContext,
  { store, storeHealth, auditLog }: AgentData,
  { describe, isBusy, service }: LinkSources,
): ColonyLink {
  const { agentId, config, paths, owner, clock } = context;
  const link: ColonyLink = new ColonyLink({
    agentId,
    identityDirectory: paths.identityDirectory,
    owner,
    colonyId: config.colony.id,
    endpoint: config.colony.endpoint,
    locateColony: context.locateColony,
    obtainToken: context.obtainToken,
    describe,
    isBusy,
    files: (name) => findSegmentFile(store, name),
    routes: (router, sessionId) =>
      addAgentService(router, {
        agentId,
        sessionId,
        colonyId: () => link.colonyId ?? "",
        store,
        storeProblem: () => storeHealth.problem,
        audit: auditLog,
        ...service(),
        clock,
      }),
    endpointFile: openEndpointFile(`${paths.identityDirectory}/endpoint`),
    clock,
    log: context.log.child("link"),
  });
  return link;
}

function reload(context: AgentContext, { watch, observers }: AgentParts, next: AgentConfig): string[] {
  const { config: before, stopped, log } = context;
  const { listen, store, colony, otlp } = before;
  // The colony gets these with a registration.
  const isRegistrationChanged = registeredConfig(before) !== registeredConfig(next);
  const runtime = watch.current();
  context.config = { ...next, listen, store, colony, otlp };
  if (next.runtime.refreshOnConfig) background(log, "Detecting the runtime", watch.refresh("config", stopped, runtime));
  if (isRegistrationChanged) background(log, "Reporting changes to the colony", watch.report("config", stopped));
  background(log, "Reconfiguring the traffic process", observers.traffic.collector.reconfigure());
  background(log, "Reconfiguring the profile process", observers.profiles.reconfigure());
  return needsRestart(before, next);
}

function needsRestart(before: AgentConfig, after: AgentConfig): string[] {
  const keys = ["listen", "store", "colony", "otlp"] as const;
  return keys.filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]));
}
