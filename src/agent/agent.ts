/** The agent: collectors fill the store, the link keeps the colony able to pull from it, the control socket answers the local CLI. */

import { setMaxListeners } from "node:events";
import { background } from "../base/background.ts";
import { ResourceStack } from "../base/resource-stack.ts";
import type { AgentConfig } from "../config/index.ts";
import { createHostReader } from "../host/index.ts";
import { loadAgentId } from "./agent-id.ts";
import { runAgentLoops } from "./agent-loops.ts";
import type { AgentOptions, AgentSetting } from "./agent-setting.ts";
import { type AgentServiceOptions, addAgentService } from "./link/agent-service.ts";
import { ColonyLink, type ColonyLinkOptions } from "./link/colony-link.ts";
import { rememberEndpointIn } from "./link/endpoint-memory.ts";
import { QueryService } from "./link/query-service.ts";
import { RuntimeWatch } from "./link/runtime-watch.ts";
import { findSegmentFile } from "./link/segment-service.ts";
import { SelfDescription, saidOf } from "./link/self-description.ts";
import { type AgentData, openAgentData } from "./open-agent-data.ts";
import { openCommands } from "./open-commands.ts";
import { openObservers } from "./open-observers.ts";
import { openRuntimeReporter } from "./open-runtime-reporter.ts";
import { type AgentParts, startAgentServers } from "./start-agent-servers.ts";
import { trafficCapability } from "./traffic/traffic-status.ts";

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
  const stopping = new AbortController();
  // Every loop waits on it; Node takes more than ten for a leak.
  setMaxListeners(0, stopping.signal);
  const reader = createHostReader();
  const machine = reader.machine();
  const { hostname } = machine;
  const agentId = await loadAgentId(options.paths.idFile, hostname);
  const setting: AgentSetting = { ...options, agentId, hostname, reader, machine, stopped: stopping.signal };
  const parts = await openParts(setting, stack);
  const { data, observers, link, watch } = parts;
  const { server, control } = await startAgentServers(setting, parts, stack);
  await data.otlp.start({ segments: () => data.store.segments, storeMetrics: (points) => data.metricIntake.store(points) });
  stack.defer(() => data.otlp.stop());
  await observers.traffic.collector.reconfigure();
  const { clock, log, stopped } = setting;
  const loops = runAgentLoops({ ...data, ...observers, link, watch, config: () => setting.config, clock, log }, stopped);
  stack.defer(async () => {
    stopping.abort();
    await Promise.allSettled(loops);
  });
  return {
    agentId,
    url: `http://${server.host}:${server.port}`,
    socketFile: control.path,
    reload: (next) => reload(setting, parts, next),
    [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose](),
  };
}

/** What the agent is made of; nothing runs or listens yet. Parts that come later are asked for only when it does. */
async function openParts(setting: AgentSetting, stack: ResourceStack): Promise<AgentParts> {
  const { clock, log } = setting;
  const config = (): AgentConfig => setting.config;
  const data = await openAgentData(setting, () => link.reconnect(), stack);
  const { store, auditLog } = data;
  const description = new SelfDescription({
    version: setting.version,
    machine: setting.machine,
    store,
    config,
    capabilities: () => [...setting.capabilities, trafficCapability(traffic.collector.readings()), observers.kernel.capability()],
    runtime: () => runtime,
    clock,
  });
  const queries = new QueryService(store, clock);
  const link = openLink(setting, data, {
    describe: () => description.describe(),
    isBusy: () => traffic.collector.captures.running > 0 || commands.running > 0,
    service: () => ({ captures: traffic.captures, queries, runtime: watch, commands }),
  });
  const observers = await openObservers(setting, data, stack);
  const { traffic, managed, collectors } = observers;
  const runtime = await openRuntimeReporter(setting, config, () => traffic.collector.readings(), setting.stopped);
  const watch = new RuntimeWatch({ reporter: runtime, link, description, clock, log: log.child("runtime") });
  const commands = stack.use(
    openCommands({
      config,
      directory: setting.paths.directory,
      audit: auditLog,
      colony: link,
      pidsOf: traffic.pidsOf,
      servicesOf: traffic.servicesOf,
      runtime: () => runtime.current(),
      onLaunched: ({ pid, name }) => managed.launched.add(pid, name, () => collectors.rescan()),
      onLoad: (isBusy) => setting.onCommandLoad?.(isBusy),
      clock,
      log: log.child("commands"),
    }),
  );
  return { data, observers, link, runtime, watch, commands };
}

interface LinkSources extends Required<Pick<ColonyLinkOptions, "describe" | "isBusy">> {
  /** What the colony may call besides the store and the audit. */
  service: () => Pick<AgentServiceOptions, "captures" | "queries" | "runtime" | "commands">;
}

function openLink(setting: AgentSetting, { store, auditLog }: AgentData, { describe, isBusy, service }: LinkSources): ColonyLink {
  const { agentId, config, paths, owner, clock } = setting;
  return new ColonyLink({
    agentId,
    identityDirectory: paths.identityDirectory,
    owner,
    colonyId: config.colony.id,
    endpoint: config.colony.endpoint,
    locateColony: setting.locateColony,
    obtainToken: setting.obtainToken,
    describe,
    isBusy,
    files: (name) => findSegmentFile(store, name),
    routes: (router, sessionId) => addAgentService(router, { agentId, sessionId, store, audit: auditLog, ...service(), clock }),
    endpointMemory: rememberEndpointIn(`${paths.identityDirectory}/endpoint`),
    clock,
    log: setting.log.child("link"),
  });
}

function reload(setting: AgentSetting, { watch, observers }: AgentParts, next: AgentConfig): string[] {
  const { config: before, stopped, log } = setting;
  const { listen, store, colony, otlp } = before;
  // The colony learns them when this agent registers.
  const isToldAnew = saidOf(before) !== saidOf(next);
  const place = watch.current();
  setting.config = { ...next, listen, store, colony, otlp };
  if (next.runtime.refreshOnConfig) background(log, "Looking where this agent runs", watch.refresh("config", stopped, place));
  if (isToldAnew) background(log, "Telling what has changed", watch.tell("config", stopped));
  background(log, "The change of the traffic process", observers.traffic.collector.reconfigure());
  return needsRestart(before, next);
}

function needsRestart(before: AgentConfig, after: AgentConfig): string[] {
  const keys = ["listen", "store", "colony", "otlp"] as const;
  return keys.filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]));
}
