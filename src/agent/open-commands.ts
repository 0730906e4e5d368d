/** Connects the command service to the agent's config, services, containers and audit. */

import type { Clock } from "../base/clock.ts";
import { FlowLoad } from "../base/flow-load.ts";
import type { Logger } from "../base/log.ts";
import type { AgentConfig } from "../config/index.ts";
import type { CommandAudit, LaunchedProgram } from "../exec/index.ts";
import { createContainerDirectory } from "../host/index.ts";
import { impossibleBecause, type RuntimeFacts } from "../model/runtime-facts.ts";
import { createExecuteService, type ExecuteService } from "./commands/execute-service.ts";
import type { ColonyLink } from "./link/colony-link.ts";
import { agentEnvironment } from "./runtime/agent-environment.ts";

export interface OpenCommandsOptions {
  config: () => AgentConfig;
  /** The agent's directory; recordings are stored below it. */
  directory: string;
  audit: CommandAudit;
  /** The agent's colony; fields are undefined until known. */
  colony: Pick<ColonyLink, "colonyId" | "environment">;
  pidsOf: (service: string) => readonly number[];
  servicesOf: (isMatch: (pid: number) => boolean) => readonly string[];
  nameOf: (service: string) => string;
  /** Decides which kinds of commands are possible, and whether they are confined to the agent's own pod. */
  runtime: () => Pick<RuntimeFacts, "runtimeType" | "sidecarMode">;
  onLaunched: (program: LaunchedProgram) => () => void;
  /** Called when the output of commands becomes heavy enough to trade memory for speed, and when that ends. */
  onLoad: (isBusy: boolean) => void;
  clock: Clock;
  log: Logger;
}

export function openCommands(options: OpenCommandsOptions): ExecuteService {
  const { config, audit, clock, log } = options;
  return createExecuteService({
    settings: () => config().exec,
    environment: () =>
      agentEnvironment({ labels: config().labels, colonyId: options.colony.colonyId, reported: options.colony.environment }),
    audit,
    pidsOf: async (service) => options.pidsOf(service),
    servicesOf: options.servicesOf,
    nameOf: options.nameOf,
    absent: (kind) => impossibleBecause(kind, options.runtime().runtimeType, options.runtime().sidecarMode),
    containers: createContainerDirectory({ env: process.env, podScope: () => options.runtime().runtimeType === "k8s-sidecar" }),
    recordingsDirectory: `${options.directory}/recordings`,
    onLaunched: options.onLaunched,
    clock,
    log,
    load: new FlowLoad(options.onLoad),
  });
}
