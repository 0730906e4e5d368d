/** Starts the agent's servers: health and metrics on a local port, everything else on the owner's unix socket. */

import type { ResourceStack } from "../base/resource-stack.ts";
import { startControlServer, startHealthServer } from "../transport/index.ts";
import type { AgentContext } from "./agent-context.ts";
import { type AgentHttpParts, createAgentHttp } from "./agent-http.ts";
import type { ExecuteService } from "./commands/execute-service.ts";
import type { DatabaseService } from "./databases/database-service.ts";
import type { ColonyLink } from "./link/colony-link.ts";
import type { RuntimeWatch } from "./link/runtime-watch.ts";
import type { AgentData } from "./open-agent-data.ts";
import type { Observers } from "./open-observers.ts";
import type { RuntimeReporter } from "./runtime/runtime-reporter.ts";

/** The parts that the servers expose. */
export interface AgentParts {
  data: AgentData;
  observers: Observers;
  link: ColonyLink;
  runtime: RuntimeReporter;
  watch: RuntimeWatch;
  commands: ExecuteService;
  databases: DatabaseService;
}

/** The control socket opens last: a client that can connect finds everything ready. */
export async function startAgentServers(context: AgentContext, parts: AgentParts, stack: ResourceStack) {
  const { config, paths, owner, log } = context;
  const { data, observers, watch, commands, databases } = parts;
  const http = createAgentHttp({
    status: statusOf(context, parts),
    managed: observers.managed,
    collectors: observers.collectors,
    watch,
    commands,
    databases,
    audit: data.auditLog,
    otlp: data.otlp,
    metricIntake: data.metricIntake,
    signal: context.stopped,
    log: log.child("http"),
  });
  const server = stack.use(await startHealthServer({ ...config.listen, portSearch: context.portSearch, http, log: log.child("http") }));
  const control = stack.use(
    await startControlServer({
      path: paths.socketFile,
      peerCredentials: context.peerCredentials,
      http,
      log: log.child("control"),
      owner,
    }),
  );
  return { server, control };
}

function statusOf(context: AgentContext, { data, observers, link, runtime }: AgentParts): AgentHttpParts["status"] {
  const { agentId, version, hostname, paths, clock } = context;
  const { managed, collectors, scraper, pods, traffic } = observers;
  return {
    agentId,
    version,
    hostname,
    store: data.store,
    writeProblem: () => data.storeHealth.problem,
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
    capabilities: context.capabilities,
    runtime: () => runtime.current(),
    directory: paths.dataDirectory,
    clock,
    startedAtMs: clock.wallMs(),
    startedMonotonicMs: clock.monotonicMs(),
  };
}
