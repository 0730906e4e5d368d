/** Runs a colony, an agent or both in this process until a signal stops it. Both share one DuckDB engine. */

import { join } from "node:path";
import type { Agent } from "../../agent/index.ts";
import { systemClock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { ResourceStack } from "../../base/resource-stack.ts";
import { version } from "../../base/version.ts";
import type { DaemonKind, DaemonReady, RunOptions } from "../../cli/index.ts";
import type { Colony } from "../../colony/index.ts";
import {
  type AgentConfig,
  type AgentPaths,
  agentPaths,
  type ColonyConfig,
  type ColonyPaths,
  checkSocketPath,
  colonyPaths,
  type LogConfig,
  listLocalColonies,
  loadAgentConfig,
  loadColonyConfig,
  makePrivateDirectory,
  readContexts,
  resolveColony,
  sudoOwner,
} from "../../config/index.ts";
import type { Engine } from "../../store/engine/index.ts";
import { listenForSignals, openDaemonLog } from "./daemon-process.ts";
import { createTokenSource } from "./join-token-source.ts";
import { keepOwner } from "./keep-owner.ts";
import { PidFile, runningColonyPids, runningHolder } from "./pid-file.ts";
import { type CapabilityReport, type HostAbilities, readCapabilities } from "./read-capabilities.ts";
import { refuseLinks } from "./refuse-links.ts";
import { createSpeedSwitch, keepReleasingMemory } from "./spare-memory.ts";

/** How many further ports to try when the default is in use. A port given by the user is used as is. */
const portSearch = 50;

type OnReady = ((ready: DaemonReady) => Promise<void>) | undefined;

export async function runColony(home: string, options: RunOptions, onReady: OnReady): Promise<void> {
  const signals = listenForSignals();
  const { config, paths, reload } = await prepareColony(home, options);
  await using stack = new ResourceStack();
  stack.use(keepReleasingMemory());
  const { log } = stack.use(openDaemonLog("colony", config.log, paths.logFile));
  const pidFile = stack.use(await PidFile.acquire(paths.pidFile, "colony", version));
  const engine = await openEngineFor(stack, log, { colony: { config, paths } });
  const colony = stack.use(await launchColony({ kind: "colony", config, paths, engine, log, mayMovePort: options.listen === undefined }));
  const endpoints = { colony: `https://${colony.endpoint}`, socket: colony.socketFile };
  pidFile.setEndpoints(endpoints);
  await onReady?.({ endpoints, degraded: [] });
  log.info(`Colony ${config.id} is ready`, { endpoint: colony.endpoint, socket: colony.socketFile, pid: process.pid });
  await signals.untilStopped({ log, reload: () => reloadInto(colony, reload, log) });
}

export async function runAgent(home: string, options: RunOptions, onReady: OnReady): Promise<void> {
  const signals = listenForSignals();
  const { config, paths, reload } = await prepareAgent(home, options);
  await closeInheritedDescriptors();
  await using stack = new ResourceStack();
  stack.use(keepReleasingMemory());
  const { log } = stack.use(openDaemonLog("agent", config.log, paths.logFile));
  const pidFile = stack.use(await PidFile.acquire(paths.pidFile, "agent", version));
  const probing = beginReadingCapabilities();
  const engine = await openEngineFor(stack, log, { agent: { config, paths } });
  const obtainToken = createTokenSource({ home, config, ...(options.token === undefined ? {} : { token: options.token }) });
  const { capabilities, kernel } = await probing;
  const agent = stack.use(
    await launchAgent({
      kind: "agent",
      config,
      paths,
      engine,
      log,
      obtainToken,
      locateColony: (colonyId) => Promise.resolve(localEndpoint(home, colonyId)),
      ownPids: () => runningColonyPids(home),
      capabilities,
      kernel,
      mayMovePort: options.listen === undefined,
    }),
  );
  const endpoints = { agent: agent.url, socket: agent.socketFile };
  pidFile.setEndpoints(endpoints);
  await onReady?.({ endpoints, degraded: degradedOf(capabilities) });
  log.info(`Agent ${agent.agentId} is ready`, { url: agent.url, socket: agent.socketFile, pid: process.pid });
  await signals.untilStopped({ log, reload: () => reloadInto(agent, reload, log) });
}

/** Keeps inherited descriptors from commands. After the config was read: it may be one of them, such as /dev/fd/3. */
async function closeInheritedDescriptors(): Promise<void> {
  const { closeInheritedFiles } = await import("../../host/index.ts");
  closeInheritedFiles();
}

/** Runs colony and agent in one process; creates a colony first when this home has none. */
export async function runBoth(home: string, options: RunOptions, onReady: OnReady): Promise<void> {
  const signals = listenForSignals();
  if (options.colonyId === undefined) await initFirstColony(home);
  const forColony = await prepareColony(home, options);
  const forAgent = await prepareAgent(home, withoutColonyFlags(options));
  await closeInheritedDescriptors();
  await using stack = new ResourceStack();
  stack.use(keepReleasingMemory());
  const { log } = stack.use(openDaemonLog("coral", quiet(forColony.config.log, options), forColony.paths.logFile));
  const colonyPid = stack.use(await PidFile.acquire(forColony.paths.pidFile, "colony", version));
  const agentPid = stack.use(await PidFile.acquire(forAgent.paths.pidFile, "agent", version));
  const probing = beginReadingCapabilities();
  const engine = await openEngineFor(stack, log, { colony: forColony, agent: forAgent });
  const colony = stack.use(
    await launchColony({ kind: "up", ...forColony, engine, log: log.child("colony"), mayMovePort: options.listen === undefined }),
  );
  // The port may differ from the last run: this run's endpoint overrides the agent's stored one.
  const agentConfig: AgentConfig = {
    ...forAgent.config,
    colony: { ...forAgent.config.colony, id: forColony.config.id, endpoint: colony.endpoint },
  };
  const { capabilities, kernel } = await probing;
  const agent = stack.use(
    await launchAgent({
      kind: "up",
      config: agentConfig,
      paths: forAgent.paths,
      engine,
      log: log.child("agent"),
      obtainToken: () => ownJoinToken(colony),
      // The config above has the endpoint.
      locateColony: () => Promise.resolve(undefined),
      capabilities,
      kernel,
      mayMovePort: true,
    }),
  );
  colonyPid.setEndpoints({ colony: `https://${colony.endpoint}`, socket: colony.socketFile });
  agentPid.setEndpoints({ agent: agent.url, socket: agent.socketFile });
  await onReady?.({
    endpoints: {
      colony: `https://${colony.endpoint}`,
      mcp: `http://${colony.endpoint}/mcp`,
      metrics: `http://${colony.endpoint}/metrics`,
      agent: agent.url,
    },
    degraded: degradedOf(capabilities),
  });
  await signals.untilStopped({
    log,
    reload: async () => {
      // Read both before applying either: an error in one changes nothing.
      const [nextColony, nextAgent] = [await forColony.reload(), await forAgent.reload()];
      log.setLevel(quiet(nextColony.log, options).level);
      reportReload(log, [...colony.reload(nextColony), ...agent.reload({ ...nextAgent, colony: agentConfig.colony })]);
    },
  });
}

interface Prepared<Config, Paths> {
  config: Config;
  paths: Paths;
  /** Reads the file again. */
  reload: () => Promise<Config>;
}

async function prepareColony(home: string, options: RunOptions): Promise<Prepared<ColonyConfig, ColonyPaths>> {
  const target = await resolveColony(home, options.colonyId);
  if (target.kind === "remote") {
    throw new CoralError({
      code: "usage",
      message: `Cannot start colony "${target.colonyId}" on this machine: it runs at ${target.endpoint}; create one here with \`coral init <app>\``,
    });
  }
  const paths = colonyPaths(home, target.colonyId);
  const { derivedSignals, segmentSignals, signals } = await import("../../store/signals/index.ts");
  const load = async (): Promise<ColonyConfig> => {
    const loaded = await loadColonyConfig({
      home,
      colonyId: target.colonyId,
      file: options.config,
      flags: { listen: options.listen, logLevel: options.logLevel, logFormat: options.logFormat },
      signals: [...signals, ...derivedSignals, ...segmentSignals].map((signal) => signal.name),
    });
    return loaded.config;
  };
  const config = await load();
  if (config.id !== target.colonyId) {
    throw new CoralError({
      code: "invalid",
      message: `Cannot start colony "${target.colonyId}": its config has id "${config.id}"; correct id in ${paths.configFile}`,
    });
  }
  checkSocketPath(paths.socketFile);
  const owner = sudoOwner();
  await makePrivateDirectory(paths.dataDirectory, owner);
  await makePrivateDirectory(paths.logsDirectory, owner);
  return { config, paths, reload: load };
}

async function prepareAgent(home: string, options: RunOptions): Promise<Prepared<AgentConfig, AgentPaths>> {
  const paths = agentPaths(home);
  const load = async (): Promise<AgentConfig> => {
    const flags = { colonyId: options.colonyId, listen: options.listen, logLevel: options.logLevel, logFormat: options.logFormat };
    return (await loadAgentConfig({ home, file: options.config, flags })).config;
  };
  checkSocketPath(paths.socketFile);
  const owner = sudoOwner();
  await makePrivateDirectory(paths.dataDirectory, owner);
  await makePrivateDirectory(paths.logsDirectory, owner);
  await makePrivateDirectory(paths.identityDirectory, owner);
  return { config: await load(), paths, reload: load };
}

interface EngineUsers {
  colony?: { config: ColonyConfig; paths: ColonyPaths };
  agent?: { config: AgentConfig; paths: AgentPaths };
}

async function openEngineFor(stack: ResourceStack, log: Logger, { colony, agent }: EngineUsers): Promise<Engine> {
  const { openEngine } = await import("../../store/engine/index.ts");
  const dataDirectories = [colony?.paths.dataDirectory, agent?.paths.dataDirectory].filter((directory) => directory !== undefined);
  const owner = sudoOwner();
  if (owner) for (const directory of dataDirectories) refuseLinks(directory);
  if (owner) for (const directory of dataDirectories) stack.use(keepOwner(directory, owner, log.child("files")));
  const tempDirectory = join(dataDirectories[0] ?? "", "spill");
  await makePrivateDirectory(tempDirectory, owner);
  const engine = await openEngine({
    dataDirectories,
    memoryLimitBytes: (colony?.config.store.memoryBytes ?? 0) + (agent?.config.store.memoryBytes ?? 0),
    threads: colony ? 2 : 1,
    tempDirectory,
    log: log.child("engine"),
  });
  stack.defer(() => engine.close());
  return engine;
}

interface ColonyLaunch {
  kind: DaemonKind;
  config: ColonyConfig;
  paths: ColonyPaths;
  engine: Engine;
  log: Logger;
  mayMovePort: boolean;
}

async function launchColony({ kind, config, paths, engine, log, mayMovePort }: ColonyLaunch): Promise<Colony> {
  const [{ startColony }, { peerCredentials }, { createHostReader }] = await Promise.all([
    import("../../colony/index.ts"),
    import("../../bpf/index.ts"),
    import("../../host/index.ts"),
  ]);
  const speedFor = createSpeedSwitch(kind);
  return startColony({
    config,
    paths,
    engine,
    version,
    owner: sudoOwner(),
    peerCredentials,
    bootId: createHostReader().machine().bootId,
    portSearch: mayMovePort ? portSearch : 0,
    onOtlpLoad: speedFor("otlp"),
    onCommandLoad: speedFor("commands"),
    clock: systemClock,
    log,
  });
}

interface AgentLaunch {
  kind: DaemonKind;
  config: AgentConfig;
  paths: AgentPaths;
  engine: Engine;
  log: Logger;
  obtainToken: () => Promise<string | undefined>;
  locateColony: (colonyId: string) => Promise<string | undefined>;
  /** Pids of colonies in other processes. */
  ownPids?: () => number[];
  capabilities: CapabilityReport[];
  kernel: HostAbilities["kernel"];
  mayMovePort: boolean;
}

async function launchAgent({ kind, mayMovePort, ...launch }: AgentLaunch): Promise<Agent> {
  const [{ startAgent }, { peerCredentials }, { fetchClusterJson }] = await Promise.all([
    import("../../agent/index.ts"),
    import("../../bpf/index.ts"),
    import("./fetch-cluster-json.ts"),
  ]);
  const speedFor = createSpeedSwitch(kind);
  return startAgent({
    ...launch,
    fetchClusterJson,
    version,
    owner: sudoOwner(),
    peerCredentials,
    portSearch: mayMovePort ? portSearch : 0,
    onOtlpLoad: speedFor("otlp"),
    onCommandLoad: speedFor("commands"),
    clock: systemClock,
  });
}

/** Probing takes half a second in a child process; the database opens meanwhile. */
function beginReadingCapabilities(): Promise<HostAbilities> {
  const probing = readCapabilities();
  // If start-up fails before it is awaited, that error is reported; this one must not become an unhandled rejection.
  probing.catch(() => undefined);
  return probing;
}

function localEndpoint(home: string, colonyId: string): string | undefined {
  return runningHolder(colonyPaths(home, colonyId).pidFile)?.endpoints["colony"]?.replace("https://", "");
}

function degradedOf(capabilities: CapabilityReport[]): DaemonReady["degraded"] {
  return capabilities.filter(({ available }) => !available).map(({ name, reason }) => ({ name, reason }));
}

/** Creates a colony unless this home has one, local or remote. */
async function initFirstColony(home: string): Promise<void> {
  const [local, { contexts }] = await Promise.all([listLocalColonies(home), readContexts(home)]);
  if (local.length > 0 || contexts.length > 0) return;
  const { initColony } = await import("./init-colony.ts");
  await initColony(home, { app: "local", environment: "dev" });
}

/** A join token for the agent in this process. */
async function ownJoinToken({ tokens }: Colony): Promise<string> {
  const { token } = await tokens.create({ kind: "join", name: "coral up", permission: null, validForMs: 600_000, uses: 1 });
  return token;
}

/** `coral up` prints its own page, so it logs only warnings unless a level was given. */
function quiet(log: ColonyConfig["log"], options: RunOptions): ColonyConfig["log"] {
  return options.logLevel === undefined && log.level === "info" ? { ...log, level: "warn" } : log;
}

/** --listen, --config and --colony of `coral up` apply to the colony only. */
function withoutColonyFlags({ logLevel, logFormat }: RunOptions): RunOptions {
  return { ...(logLevel === undefined ? {} : { logLevel }), ...(logFormat === undefined ? {} : { logFormat }) };
}

async function reloadInto<Config extends { log: LogConfig }>(
  daemon: { reload(config: Config): string[] },
  read: () => Promise<Config>,
  log: Logger,
): Promise<void> {
  const config = await read();
  log.setLevel(config.log.level);
  reportReload(log, daemon.reload(config));
}

function reportReload(log: Logger, needRestart: string[]): void {
  if (needRestart.length === 0) log.info("Config reloaded");
  else log.warn(`Config reloaded; restart to apply changes of ${needRestart.join(", ")}`);
}
