/** For tests: a real authority in a temporary directory, a real colony port, and issued identities. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ConnectRouter } from "@connectrpc/connect";
import { createLogger, type Logger, type LogRecord } from "../base/log.ts";
import { ResourceStack } from "../base/resource-stack.ts";
import { AgentService } from "../proto/coral/agent/v1/agent_pb.ts";
import { ColonyService } from "../proto/coral/colony/v1/colony_pb.ts";
import { type ColonyServer, type ColonyServerOptions, startColonyServer } from "./colony-server.ts";
import { createHttpRoutes, type HttpRoutesOptions } from "./http/http-routes.ts";
import { type Authority, createAuthority } from "./trust/authority.ts";
import { requireAgent } from "./trust/caller.ts";
import { backdateMs } from "./trust/certificates.ts";
import { generateKey, type Identity, isProofValid } from "./trust/identity.ts";
import type { Tunnel } from "./tunnel/tunnel.ts";

export const hourMs = 3_600_000;

export async function temporaryDirectory(): Promise<AsyncDisposable & { path: string }> {
  // Short: socket paths are limited.
  const path = await mkdtemp(join(tmpdir(), "coral-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

interface RecordedLog {
  log: Logger;
  records: LogRecord[];
}

export function recordedLog(): RecordedLog {
  const records: LogRecord[] = [];
  return { records, log: createLogger("test", "debug", (record) => records.push(record)) };
}

/** An identity of `authority`, as Join would issue it. */
export async function issueIdentity(
  authority: Authority,
  agentId: string,
  life: { ttlMs: number; nowMs: number } = { ttlMs: hourMs, nowMs: Date.now() },
): Promise<Identity> {
  const key = generateKey();
  const { certPem, notAfterMs } = await authority.issueAgent({ agentId, publicKeyDer: key.publicKeyDer, ...life });
  const { caPem, colonyId } = authority;
  return { agentId, colonyId, keyPem: key.keyPem, certPem, caPem, notBeforeMs: life.nowMs - backdateMs, notAfterMs, renewAtMs: notAfterMs };
}

export interface TestColony extends AsyncDisposable {
  authority: Authority;
  server: ColonyServer;
  endpoint: string;
  directory: string;
  /** In order of arrival. */
  tunnels: Tunnel[];
  nextTunnel(): Promise<Tunnel>;
  revoked: Set<string>;
  recorded: RecordedLog;
}

interface TestColonyOptions extends Partial<ColonyServerOptions> {
  colonyId?: string;
  authority?: Authority;
  http?: ColonyServerOptions["http"];
  routing?: Partial<HttpRoutesOptions>;
}

/** A colony with a ColonyService that accepts the token secret "open sesame". */
export async function startTestColony(options: TestColonyOptions = {}): Promise<TestColony> {
  const stack = new ResourceStack();
  const directory = stack.use(await temporaryDirectory()).path;
  const authority = options.authority ?? (await createAuthority(join(directory, "ca"), options.colonyId ?? "shop-test-0a1b2c"));
  const { colonyId } = authority;
  const { certPem, keyPem } = await authority.issueColony({ ttlMs: hourMs });
  const recorded = recordedLog();
  const revoked = new Set<string>();
  const tunnels: Tunnel[] = [];
  const waiting: ((tunnel: Tunnel) => void)[] = [];
  const server = stack.use(
    await startColonyServer({
      port: 0,
      colonyId,
      tls: () => ({ certPem, keyPem, caPem: authority.caPem }),
      routes: (router) => colonyRoutes(router, authority),
      http: createHttpRoutes({
        routes: [],
        authorize: (caller) => ({ name: caller.kind }),
        notReady: () => undefined,
        metrics: () => Promise.resolve("coral_up 1\n"),
        log: recorded.log,
        ...options.routing,
      }),
      onTunnel: (tunnel) => {
        const waiter = waiting.shift();
        if (waiter) waiter(tunnel);
        else tunnels.push(tunnel);
      },
      isRevoked: (agentId) => revoked.has(agentId),
      log: recorded.log,
      ...options,
    }),
  );
  return {
    authority,
    server,
    endpoint: `127.0.0.1:${server.port}`,
    directory,
    tunnels,
    nextTunnel: () => {
      const tunnel = tunnels.shift();
      return tunnel ? Promise.resolve(tunnel) : new Promise((resolve) => waiting.push(resolve));
    },
    revoked,
    recorded,
    [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose](),
  };
}

function colonyRoutes(router: ConnectRouter, authority: Authority): void {
  const { colonyId } = authority;
  const issue = async (agentId: string, publicKeyDer: Uint8Array) => {
    const { certPem } = await authority.issueAgent({ agentId, publicKeyDer, ttlMs: hourMs, nowMs: Date.now() });
    return { certificate: certPem, caCertificate: authority.caPem };
  };
  router.service(ColonyService, {
    join: (request) => {
      const { agentId, publicKey } = request;
      if (request.token !== "open sesame") throw new Error("wrong token in a test");
      if (!isProofValid(request.proof, { colonyId, agentId, publicKeyDer: publicKey })) throw new Error("wrong proof in a test");
      return issue(agentId, publicKey);
    },
    renew: (request, context) => issue(requireAgent(context.values), request.publicKey),
    register: (request, context) => ({ sessionId: `session of ${requireAgent(context.values)}`, colonyName: request.colonyId }),
  });
}

/** An agent that serves Hello, and Pull with one slice per cursor. */
export function agentRoutes(agentId: string): (router: ConnectRouter) => void {
  return (router) => {
    router.service(AgentService, {
      hello: () => ({ agentId, sessionId: "s-1" }),
      pull: (request) => ({
        epoch: "e-1",
        slices: request.cursors.map((cursor) => ({ signal: cursor.signal, oldestSeq: 1n, nextSeq: cursor.afterSeq + 1n })),
      }),
    });
  };
}
