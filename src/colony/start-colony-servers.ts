/** The colony's listeners: one TCP port for agents and clients, and a unix socket for the local CLI. */

import { background } from "../base/background.ts";
import type { ResourceStack } from "../base/resource-stack.ts";
import { type HttpHandler, startColonyServer, startControlServer, type Tunnel } from "../transport/index.ts";
import type { ColonyContext } from "./core/colony-context.ts";
import { addColonyService, type ColonyServiceOptions } from "./http/colony-service.ts";
import type { Intake } from "./open-intake.ts";
import type { Members } from "./open-members.ts";
import { hostTunnel } from "./pull/tunnel-host.ts";
import { createServerCertificate } from "./registry/server-certificate.ts";

interface ServerParts {
  members: Members;
  intake: Intake;
  http: HttpHandler;
}

export async function startColonyServers(context: ColonyContext, { members, intake, http }: ServerParts, stack: ResourceStack) {
  const { config, paths, owner, clock, log } = context;
  const { authority, registry } = members;
  const certificate = await createServerCertificate(authority);
  const tunnels = new Set<Promise<void>>();
  const onTunnel = (tunnel: Tunnel): void => {
    const hosted = hostTunnel(tunnel, { ...intake, registry, log: log.child("agents"), signal: context.stopped });
    tunnels.add(hosted);
    background(
      log,
      "Tunnel",
      hosted.finally(() => tunnels.delete(hosted)),
    );
  };
  const server = stack.use(
    await startColonyServer({
      ...config.listen,
      portSearch: context.portSearch,
      colonyId: config.id,
      tls: () => certificate.current(),
      routes: (router) => addColonyService(router, serviceOf(context, members)),
      http,
      onTunnel,
      isRevoked: (agentId) => registry.isRevoked(agentId),
      nowMs: () => clock.wallMs(),
      log: log.child("server"),
    }),
  );
  context.endpoint = joinHostPort(server.host, server.port);
  const control = stack.use(
    await startControlServer({
      path: paths.socketFile,
      peerCredentials: context.peerCredentials,
      http,
      log: log.child("control"),
      owner,
    }),
  );
  return { server, control, certificate, tunnels };
}

function serviceOf(context: ColonyContext, { authority, tokens, registry }: Members): ColonyServiceOptions {
  return {
    colonyId: context.config.id,
    name: context.config.name,
    environment: context.config.environment,
    authority,
    tokens,
    registry,
    agentTtlMs: () => context.config.certificates.agentTtlMs,
    pullIntervalMs: () => context.config.pull.intervalMs,
    registration: () => context.config.registry,
    clock: context.clock,
    log: context.log.child("agents"),
  };
}

function joinHostPort(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
