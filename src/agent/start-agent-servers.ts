/** Where the agent answers: its health and metrics to this machine, everything else on the socket of its owner. */

import type { ResourceStack } from "../base/resource-stack.ts";
import { startControlServer, startHealthServer } from "../transport/index.ts";
import { type AgentHttpParts, createAgentHttp } from "./agent-http.ts";
import type { AgentSetting } from "./agent-setting.ts";
import type { ExecuteService } from "./commands/execute-service.ts";
import type { ColonyLink } from "./link/colony-link.ts";
import type { RuntimeWatch } from "./link/runtime-watch.ts";
import type { AgentData } from "./open-agent-data.ts";
import type { Observers } from "./open-observers.ts";
import type { RuntimeReporter } from "./runtime/runtime-reporter.ts";

export interface AgentParts {
  data: AgentData;
  observers: Observers;
  link: ColonyLink;
  runtime: RuntimeReporter;
  watch: RuntimeWatch;
  commands: ExecuteService;
}

export async function startAgentServers(setting: AgentSetting, parts: AgentParts, stack: ResourceStack) {
  const { config, paths, owner, log } = setting;
  const { data, observers, watch, commands } = parts;
  const http = createAgentHttp({
    status: statusOf(setting, parts),
    managed: observers.managed,
    collectors: observers.collectors,
    watch,
    commands,
    audit: data.auditLog,
    otlp: data.otlp,
    metricIntake: data.metricIntake,
    signal: setting.stopped,
    log: log.child("http"),
  });
  const server = stack.use(await startHealthServer({ ...config.listen, portSearch: setting.portSearch, http, log: log.child("http") }));
  const control = stack.use(
    await startControlServer({
      path: paths.socketFile,
      peerCredentials: setting.peerCredentials,
      http,
      log: log.child("control"),
      owner,
    }),
  );
  return { server, control };
}

function statusOf(setting: AgentSetting, { data, observers, link, runtime }: AgentParts): AgentHttpParts["status"] {
  const { agentId, version, hostname, paths, clock } = setting;
  const { managed, collectors, scraper, pods, traffic } = observers;
  return {
    agentId,
    version,
    hostname,
    store: data.store,
    link,
    managed: managed.services,
    facts: managed.facts,
    traffic: () => traffic.collector.readings(),
    otlp: () => data.otlp.status(),
    notes: () => [
      ...managed.notes(),
      ...collectors.notes(),
      ...scraper.notes(),
      ...data.logTails.notes(),
      ...(pods?.problem ? [pods.problem] : []),
    ],
    capabilities: setting.capabilities,
    runtime: () => runtime.current(),
    directory: paths.dataDirectory,
    clock,
    startedAtMs: clock.wallMs(),
    startedMonotonicMs: clock.monotonicMs(),
  };
}
