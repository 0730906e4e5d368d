/**
 * The agent's link to its colony: joins once, renews the certificate in time, registers, holds the tunnel, and reconnects when it breaks.
 * `state` shows the current phase and the last error.
 */

import { readFile } from "node:fs/promises";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ConnectRouter } from "@connectrpc/connect";
import { createBackoff } from "../../base/backoff.ts";
import { type Clock, sleep } from "../../base/clock.ts";
import { CoralError, type ErrorCode } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { writePrivateFile } from "../../config/index.ts";
import { pullReason, runtimeProtocolVersion } from "../../model/runtime-facts.ts";
import type { HostIdentitySchema, OutsideNamesSchema } from "../../proto/coral/colony/v1/colony_pb.ts";
import type { RuntimeContextSchema } from "../../proto/coral/runtime/v1/runtime_pb.ts";
import {
  checkIdentity,
  createKey,
  dialTunnel,
  type FileOwner,
  type FindServedFile,
  type Identity,
  joinColony,
  parseToken,
  registerAgent,
  renewCertificate,
  saveIdentity,
} from "../../transport/index.ts";

export type LinkState =
  | { kind: "joining"; sinceMs: number; lastError?: string }
  | { kind: "connecting"; sinceMs: number; lastError?: string }
  | { kind: "connected"; sinceMs: number; colonyName: string; certificateExpiresAtMs: number }
  /** The colony refused, or there is no token. Retried slowly: a user has to act. */
  | { kind: "refused"; sinceMs: number; lastError: string };

/** The content of a registration, besides the identity. */
export interface AgentDescription {
  protocolVersion: number;
  version: string;
  host: MessageInitShape<typeof HostIdentitySchema>;
  epoch: string;
  labels: Record<string, string>;
  capabilities: { name: string; available: boolean; reason: string }[];
  wallMs: bigint;
  outsideNames?: MessageInitShape<typeof OutsideNamesSchema>;
  /** Absent when reporting it is disabled. */
  runtimeContext?: MessageInitShape<typeof RuntimeContextSchema>;
}

interface EndpointFile {
  read(): Promise<string | undefined>;
  write(endpoint: string): Promise<void>;
}

export interface ColonyLinkOptions {
  agentId: string;
  identityDirectory: string;
  owner?: FileOwner | undefined;
  /** From the config; undefined: taken from the token or the stored identity. */
  colonyId: string | undefined;
  endpoint: string | undefined;
  /** The endpoint of a colony on this machine, whose port may have changed. Undefined when there is none. */
  locateColony: (colonyId: string) => Promise<string | undefined>;
  /** A join token, or undefined when there is none. Called only without a usable identity. */
  obtainToken: () => Promise<string | undefined>;
  /** Called for each registration. */
  describe: () => AgentDescription;
  /** RPCs that the colony may call through the tunnel, for one session. */
  routes: (router: ConnectRouter, sessionId: string) => void;
  /** Files that the colony may read through the tunnel. Absent: none. */
  files?: FindServedFile;
  /** Whether a command or capture uses the tunnel and would be cut off with it. */
  isBusy?: () => boolean;
  /** Stores the colony's endpoint, because the token may be missing at the next start. */
  endpointFile: EndpointFile;
  clock: Clock;
  log: Logger;
}

/** Timers hold 31 bits of milliseconds; reopening the tunnel before its certificate is due is harmless. */
const maxTimerMs = 2 ** 31 - 1;
/** A refusal needs a user's action, such as a new token, so retries are rare. */
const refusedRetryMs = 30_000;
/** How often the end of a running command is checked before the tunnel is renewed. */
const busyCheckMs = 1_000;
/** This long before the certificate expires, the tunnel is renewed even while it is busy. */
const forcedRenewalMs = 60_000;
/** Includes malformed tokens (`usage`): retrying does not help either. */
const refusalCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["unauthenticated", "not-permitted", "already-exists", "usage"]);

/** One loop: identity, registration, tunnel, wait for its end, repeat with backoff. */
export class ColonyLink {
  readonly #options: ColonyLinkOptions;
  #state: LinkState;
  #endpoint: string | undefined;
  #colonyId: string | undefined;
  #environment: string | undefined;
  /** Aborting it closes the tunnel. */
  #held: AbortController | undefined;
  /** The registration whose tunnel is up. */
  #session: { sessionId: string; identity: Identity; endpoint: string; protocolVersion: number } | undefined;

  constructor(options: ColonyLinkOptions) {
    this.#options = options;
    this.#endpoint = options.endpoint;
    this.#colonyId = options.colonyId;
    this.#state = { kind: "joining", sinceMs: options.clock.wallMs() };
  }

  get state(): LinkState {
    return this.#state;
  }

  get endpoint(): string | undefined {
    return this.#endpoint;
  }

  get colonyId(): string | undefined {
    return this.#colonyId;
  }

  /** The colony's environment, kept while disconnected. Undefined before the first registration. */
  get environment(): string | undefined {
    return this.#environment;
  }

  /** Drops the tunnel and registers again, because the description has changed. */
  reconnect(): void {
    this.#held?.abort();
  }

  /**
   * Sends the current description in a new registration, without closing the tunnel. True when the colony accepted it, or gets it with a
   * reconnect: older colonies support nothing else.
   */
  async reregister(reason: string, signal: AbortSignal): Promise<boolean> {
    const { agentId, describe, isBusy, log } = this.#options;
    const live = this.#session;
    if (!live) return false;
    if (live.protocolVersion < runtimeProtocolVersion) {
      if (isBusy?.() === true) return false;
      this.reconnect();
      return true;
    }
    const { identity, endpoint, sessionId } = live;
    const request = { ...describe(), colonyId: identity.colonyId, agentId, sessionId, changeReason: reason };
    try {
      await registerAgent({ endpoint, identity, request, signal });
      return true;
    } catch (error) {
      signal.throwIfAborted();
      // The tunnel's state shows whether the colony is unreachable; the next check retries.
      log.warn(`Cannot report changes to the colony: ${CoralError.from(error).message}; retrying`);
      return false;
    }
  }

  /** Requests a pull now, because a user waits for new rows. Older colonies pull at their interval only. */
  async requestPull(signal: AbortSignal): Promise<void> {
    if ((this.#session?.protocolVersion ?? 0) >= runtimeProtocolVersion) await this.reregister(pullReason, signal);
  }

  /** Runs until aborted; a failure sets the state, is logged and retried. */
  async run(signal: AbortSignal): Promise<void> {
    const backoff = createBackoff();
    while (!signal.aborted) {
      try {
        const identity = await this.#usableIdentity(signal);
        const ended = await this.#hold(identity, signal, () => backoff.reset());
        if (ended.code !== "cancelled") this.#fail(ended);
      } catch (error) {
        if (signal.aborted) return;
        this.#fail(CoralError.from(error));
      }
      const delayMs = this.#state.kind === "refused" ? refusedRetryMs : backoff.nextMs();
      await sleep(delayMs, signal).catch(() => undefined); // aborted: the loop's condition ends it
    }
  }

  /** The stored identity, renewed when due; joins when there is none. */
  async #usableIdentity(signal: AbortSignal): Promise<Identity> {
    const { identityDirectory, clock, log } = this.#options;
    const expected = this.#options.colonyId === undefined ? {} : { colonyId: this.#options.colonyId };
    const check = await checkIdentity(identityDirectory, { ...expected, nowMs: clock.wallMs() });
    if (check.kind === "unusable") {
      if (check.problem === "missing") return this.#join("this agent has not joined one yet", signal);
      log.warn(`Cannot use the stored identity: ${check.message}; joining again`);
      return this.#join(check.message, signal);
    }
    this.#colonyId = check.identity.colonyId;
    this.#endpoint = await this.#findColony(check.identity.colonyId);
    if (this.#endpoint === undefined) return this.#join("the colony's endpoint is unknown", signal);
    return clock.wallMs() >= check.identity.renewAtMs ? this.#renew(check.identity, signal) : check.identity;
  }

  async #findColony(colonyId: string): Promise<string | undefined> {
    const { endpoint, locateColony, endpointFile } = this.#options;
    return endpoint ?? (await locateColony(colonyId)) ?? this.#endpoint ?? (await endpointFile.read());
  }

  async #join(reason: string, signal: AbortSignal): Promise<Identity> {
    const { identityDirectory, agentId, owner, obtainToken, endpointFile, clock, log } = this.#options;
    const lastError = "lastError" in this.#state ? this.#state.lastError : undefined;
    this.#state = { kind: "joining", sinceMs: clock.wallMs(), ...(lastError === undefined ? {} : { lastError }) };
    const text = await obtainToken();
    if (text === undefined) {
      throw new CoralError({
        code: "unauthenticated",
        message: `Cannot join${this.#options.colonyId === undefined ? " a colony" : ` colony "${this.#options.colonyId}"`}: ${reason}, and there is no join token; create one at the colony with \`coral colony token create\` and start the agent with --token`,
      });
    }
    const parsed = parseToken(text, "join");
    if (this.#options.colonyId !== undefined && parsed.colonyId !== this.#options.colonyId) {
      throw new CoralError({
        code: "unauthenticated",
        message: `Cannot join colony "${this.#options.colonyId}": the token is for colony "${parsed.colonyId}"`,
      });
    }
    const token = this.#options.endpoint === undefined ? parsed : { ...parsed, endpoints: [this.#options.endpoint] };
    const key = await createKey(identityDirectory, owner);
    const { certPem, caPem, endpoint } = await joinColony({ token, agentId, key, signal });
    const identity = await saveIdentity(identityDirectory, { keyPem: key.keyPem, certPem, caPem }, owner);
    this.#endpoint = endpoint;
    this.#colonyId = token.colonyId;
    await endpointFile.write(endpoint);
    log.info(`Joined colony ${token.colonyId} at ${endpoint}`);
    return identity;
  }

  async #renew(identity: Identity, signal: AbortSignal): Promise<Identity> {
    const { identityDirectory, owner, log } = this.#options;
    const key = await createKey(identityDirectory, owner);
    const { certPem, caPem } = await renewCertificate({ endpoint: this.#endpoint ?? "", identity, key, signal });
    const renewed = await saveIdentity(identityDirectory, { keyPem: key.keyPem, certPem, caPem }, owner);
    log.info("Renewed the certificate", { until: new Date(renewed.notAfterMs).toISOString() });
    return renewed;
  }

  /** Registers, opens the tunnel and holds it until it breaks or the certificate is due. Resolves with the reason. */
  async #hold(identity: Identity, signal: AbortSignal, onConnected: () => void): Promise<CoralError> {
    const { agentId, describe, routes, clock, log } = this.#options;
    const endpoint = this.#endpoint ?? "";
    const lastError = "lastError" in this.#state ? this.#state.lastError : undefined;
    this.#state = { kind: "connecting", sinceMs: clock.wallMs(), ...(lastError === undefined ? {} : { lastError }) };
    const request = { ...describe(), colonyId: identity.colonyId, agentId };
    const registered = await registerAgent({ endpoint, identity, request, signal });
    this.#environment = registered.environment;
    await using tunnel = await dialTunnel({
      endpoint,
      identity,
      colonyId: identity.colonyId,
      routes: (router) => routes(router, registered.sessionId),
      ...(this.#options.files && { files: this.#options.files }),
      signal,
      log,
    });
    this.#state = {
      kind: "connected",
      sinceMs: clock.wallMs(),
      colonyName: registered.colonyName,
      certificateExpiresAtMs: identity.notAfterMs,
    };
    log.info(`Connected to colony ${registered.colonyName} at ${endpoint}`);
    onConnected();
    const held = new AbortController();
    this.#held = held;
    this.#session = { sessionId: registered.sessionId, identity, endpoint, protocolVersion: registered.protocolVersion };
    const over = this.#untilDue(identity, held.signal).then(
      () => new CoralError({ code: "cancelled", message: "the certificate is due for renewal" }),
      () => new CoralError({ code: "cancelled", message: "the agent's description changed" }),
    );
    const ended = await Promise.race([tunnel.closed, over]);
    this.#session = undefined;
    held.abort();
    return ended;
  }

  /** Resolves when the certificate is due for renewal and the tunnel is idle, or when renewal cannot wait. */
  async #untilDue(identity: Identity, signal: AbortSignal): Promise<void> {
    const { clock, isBusy } = this.#options;
    await sleep(Math.min(Math.max(1_000, identity.renewAtMs - clock.wallMs()), maxTimerMs), signal);
    const lastMs = identity.notAfterMs - forcedRenewalMs;
    while (isBusy?.() === true && clock.wallMs() < lastMs) await sleep(busyCheckMs, signal);
  }

  #fail(error: CoralError): void {
    const { clock, log } = this.#options;
    const isRefusal = refusalCodes.has(error.code);
    const isNew = !("lastError" in this.#state) || this.#state.lastError !== error.message;
    this.#state = { kind: isRefusal ? "refused" : "connecting", sinceMs: clock.wallMs(), lastError: error.message };
    log[isNew ? "warn" : "debug"](`Not connected to the colony: ${error.message}`, { code: error.code });
  }
}

/** The endpoint at which the colony was last reached, in a small file next to the identity. */
export function openEndpointFile(file: string): EndpointFile {
  return {
    read: async () => {
      try {
        return (await readFile(file, "utf8")).trim() || undefined;
      } catch {
        // Never joined, or deleted by hand: the link joins again and writes it.
        return undefined;
      }
    },
    write: (endpoint) => writePrivateFile(file, `${endpoint}\n`),
  };
}
