/** ColonyService, the RPCs of agents. A token authorizes Join; the client certificate, which transport has checked, authorizes the rest. */

import { Code, ConnectError, type ConnectRouter, type HandlerContext } from "@connectrpc/connect";
import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { ColonyRegistryConfig } from "../../config/index.ts";
import { runtimeProtocolVersion } from "../../model/runtime-facts.ts";
import { ColonyService, type JoinRequest, type RegisterRequest, type RenewRequest } from "../../proto/coral/colony/v1/colony_pb.ts";
import type { NamingLimits } from "../../store/discovery/index.ts";
import { type Authority, isProofValid, requireAgent, runtimeFromWire } from "../../transport/index.ts";
import type { AgentRegistry } from "../registry/agent-registry.ts";
import { checkLegacy } from "../registry/legacy-policy.ts";
import type { TokenStore } from "../registry/token-store.ts";

export interface ColonyServiceOptions {
  colonyId: string;
  name: string;
  environment: string;
  authority: Authority;
  tokens: TokenStore;
  registry: AgentRegistry;
  agentTtlMs: () => number;
  pullIntervalMs: () => number;
  registration: () => ColonyRegistryConfig;
  clock: Clock;
  log: Logger;
}

const agentIdPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const maxFactLength = 255;
const maxReasonLength = 4_096;
const maxLabels = 128;
const maxCapabilities = 128;

export function addColonyService(router: ConnectRouter, options: ColonyServiceOptions): void {
  router.service(ColonyService, {
    join: (request) => join(options, request),
    renew: (request, context) => renew(options, request, context),
    register: (request, context) => register(options, request, context),
  });
}

async function join(options: ColonyServiceOptions, request: JoinRequest): Promise<{ certificate: string; caCertificate: string }> {
  checkColonyId(options, request.colonyId);
  if (!agentIdPattern.test(request.agentId)) {
    throw new CoralError({
      code: "invalid",
      message: "Cannot join: the agent id must be 1 to 128 letters, digits, dots, dashes or underscores",
    });
  }
  if (options.registry.isRevoked(request.agentId))
    throw new ConnectError(`Cannot join: agent "${request.agentId}" was revoked`, Code.Unauthenticated);
  checkProof(options, request.agentId, request.publicKey, request.proof);
  await options.tokens.useJoin(request.tokenId, request.token, `${request.agentId} ${Buffer.from(request.publicKey).toString("base64")}`);
  options.log.info(`Agent ${request.agentId} joined with token ${request.tokenId}`);
  return issue(options, request.agentId, request.publicKey);
}

async function renew(
  options: ColonyServiceOptions,
  request: RenewRequest,
  context: HandlerContext,
): Promise<{ certificate: string; caCertificate: string }> {
  const agentId = requireAgent(context.values);
  checkProof(options, agentId, request.publicKey, request.proof);
  return issue(options, agentId, request.publicKey);
}

async function register(options: ColonyServiceOptions, request: RegisterRequest, context: HandlerContext) {
  const agentId = requireAgent(context.values);
  checkColonyId(options, request.colonyId);
  if (request.agentId !== agentId) {
    throw new ConnectError(`Cannot register agent "${request.agentId}": the certificate is for agent "${agentId}"`, Code.PermissionDenied);
  }
  const host = request.host;
  if (!host || request.epoch === "") throw new CoralError({ code: "invalid", message: "Cannot register: host and epoch are required" });
  checkRegistrationSize(request);
  const runtime = request.runtimeContext ? runtimeFromWire(request.runtimeContext) : null;
  const { version, protocolVersion } = request;
  const note = checkLegacy(
    { agentId, version, protocolVersion, hasRuntime: runtime !== null },
    options.registration(),
    options.clock.wallMs(),
  );
  if (note) options.log[note.level](note.message);
  const session = await options.registry.register({
    agentId,
    hostname: host.hostname,
    machineId: host.machineId,
    bootId: host.bootId,
    pidNamespace: Number(host.pidNamespace),
    os: host.os,
    kernel: host.kernel,
    arch: host.arch,
    version: request.version,
    protocolVersion: request.protocolVersion,
    epoch: request.epoch,
    labels: request.labels,
    capabilities: request.capabilities.map(({ name, available, reason }) => ({ name, available, reason })),
    wallMs: Number(request.wallMs),
    naming: namingOf(request),
    runtime,
    sessionId: request.sessionId,
    changeReason: request.changeReason,
  });
  return {
    sessionId: session.id,
    colonyName: options.name,
    environment: options.environment,
    protocolVersion: runtimeProtocolVersion,
    pullIntervalMs: BigInt(options.pullIntervalMs()),
  };
}

/** Throws `invalid` for oversized facts: the colony keeps them in memory and sends them with every status. */
function checkRegistrationSize({ host, version, epoch, labels, capabilities }: RegisterRequest): void {
  const facts = Object.entries({ ...host, version, epoch }).filter((entry): entry is [string, string] => typeof entry[1] === "string");
  for (const [name, value] of facts) limit(name, value.length, maxFactLength, "characters");
  limit("labels", Object.keys(labels).length, maxLabels, "entries");
  for (const text of Object.entries(labels).flat()) limit("labels", text.length, maxFactLength, "characters");
  limit("capabilities", capabilities.length, maxCapabilities, "entries");
  for (const { name, reason } of capabilities) {
    limit("capabilities", name.length, maxFactLength, "characters");
    limit("capabilities", reason.length, maxReasonLength, "characters");
  }
}

function limit(name: string, size: number, max: number, unit: "characters" | "entries"): void {
  if (size <= max) return;
  throw new CoralError({ code: "invalid", message: `Cannot register: "${name}" has ${size} ${unit}; the limit is ${max}` });
}

/** Null when the agent sets no limits. */
function namingOf({ outsideNames }: RegisterRequest): NamingLimits | null {
  const { noReverseDns = false, noProviderRanges = false, maxCacheMs = 0n } = outsideNames ?? {};
  if (!noReverseDns && !noProviderRanges && maxCacheMs <= 0n) return null;
  return { reverseDns: !noReverseDns, providerRanges: !noProviderRanges, maxCacheMs: maxCacheMs > 0n ? Number(maxCacheMs) : null };
}

function checkColonyId(options: ColonyServiceOptions, colonyId: string): void {
  if (colonyId === options.colonyId) return;
  throw new ConnectError(
    `Cannot accept the call: it is for colony "${colonyId}", this is colony "${options.colonyId}"`,
    Code.Unauthenticated,
  );
}

function checkProof(options: ColonyServiceOptions, agentId: string, publicKeyDer: Uint8Array, proof: Uint8Array): void {
  if (isProofValid(proof, { colonyId: options.colonyId, agentId, publicKeyDer })) return;
  throw new ConnectError("Cannot accept the public key: the proof of possession does not match it", Code.Unauthenticated);
}

async function issue(
  options: ColonyServiceOptions,
  agentId: string,
  publicKeyDer: Uint8Array,
): Promise<{ certificate: string; caCertificate: string }> {
  const { authority, agentTtlMs, clock } = options;
  const issued = await authority.issueAgent({ agentId, publicKeyDer, ttlMs: agentTtlMs(), nowMs: clock.wallMs() });
  return { certificate: issued.certPem, caCertificate: authority.caPem };
}
