/**
 * The agent's way to its colony: join once, renew in time, register, hold the tunnel, and begin again when it breaks. The state says
 * at every moment what is going on and why.
 */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ConnectRouter } from "@connectrpc/connect";
import { type Clock, sleep } from "../../base/clock.ts";
import { CoralError, type ErrorCode } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { createBackoff } from "../../base/retry.ts";
import { runtimeProtocolVersion } from "../../model/runtime-facts.ts";
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
  /** The colony, or the lack of a token, says no. Tried again slowly: a person has to act. */
  | { kind: "refused"; sinceMs: number; lastError: string };

/** What an agent says of itself when it registers, besides who it is. */
export interface AgentDescription {
  protocolVersion: number;
  version: string;
  host: MessageInitShape<typeof HostIdentitySchema>;
  epoch: string;
  labels: Record<string, string>;
  capabilities: { name: string; available: boolean; reason: string }[];
  wallMs: bigint;
  outsideNames?: MessageInitShape<typeof OutsideNamesSchema>;
  /** Absent: it is not told. */
  runtimeContext?: MessageInitShape<typeof RuntimeContextSchema>;
}

export interface ColonyLinkOptions {
  agentId: string;
  identityDirectory: string;
  owner?: FileOwner | undefined;
  /** From config; undefined = whatever the token or the stored identity says. */
  colonyId: string | undefined;
  endpoint: string | undefined;
  /** Where a colony of this machine listens now: its port may have moved since the last time. Undefined when it is elsewhere or away. */
  locateColony: (colonyId: string) => Promise<string | undefined>;
  /** A join token's text, or undefined when none is to be had. Asked only when there is no usable identity. */
  obtainToken: () => Promise<string | undefined>;
  /** Facts for Register, read anew each time. */
  describe: () => AgentDescription;
  /** What the colony may call through the tunnel, for one session. */
  routes: (router: ConnectRouter, sessionId: string) => void;
  /** Files that the colony may read through the tunnel. Absent: none. */
  files?: FindServedFile;
  /** Whether something runs through the tunnel that its end would cut. */
  isBusy?: () => boolean;
  /** Where the colony answers is kept here, because a token may be gone by the next start. */
  endpointMemory: { read: () => Promise<string | undefined>; write: (endpoint: string) => Promise<void> };
  clock: Clock;
  log: Logger;
}

/** Timers hold 31 bits of milliseconds; a tunnel that is opened anew before its certificate is due costs nothing. */
const maxTimerMs = 2 ** 31 - 1;
const refusedRetryMs = 30_000;
const busyCheckMs = 1_000;
/** Before a certificate ends, what still runs is cut after all. */
const renewAtTheLatestMs = 60_000;
/** Besides a plain no: a token that cannot be read, which trying again does not mend either. */
const refusalCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["unauthenticated", "not-permitted", "already-exists", "usage"]);

export class ColonyLink {
  readonly #options: ColonyLinkOptions;
  #state: LinkState;
  #endpoint: string | undefined;
  #colonyId: string | undefined;
  #environment: string | undefined;
  /** Aborting it lets the tunnel go. */
  #held: AbortController | undefined;
  /** The registration whose tunnel is up. */
  #live: { sessionId: string; identity: Identity; endpoint: string; protocolVersion: number } | undefined;

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

  /** As the colony calls its own; kept while it is away. Undefined before the first registration. */
  get environment(): string | undefined {
    return this.#environment;
  }

  /** Registers again soon, because what `describe` says has changed. */
  reconnect(): void {
    this.#held?.abort();
  }

  /**
   * Tells the colony anew what `describe` says, beside the tunnel, so that nothing that runs through it ends. True when it was told, or will be
   * with a tunnel that is opened at once: a colony from before knows no other way.
   */
  async tellAgain(reason: string, signal: AbortSignal): Promise<boolean> {
    const { agentId, describe, isBusy, log } = this.#options;
    const live = this.#live;
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
      // The tunnel tells whether the colony is away; the next look tries again.
      log.warn(`Cannot tell the colony what has changed here: ${CoralError.from(error).message}`);
      return false;
    }
  }

  /** Runs until aborted; every failure is a state, a log line and another try. */
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

  /** The stored identity, renewed when due; a new one by joining when there is none. */
  async #usableIdentity(signal: AbortSignal): Promise<Identity> {
    const { identityDirectory, clock, log } = this.#options;
    const expected = this.#options.colonyId === undefined ? {} : { colonyId: this.#options.colonyId };
    const check = await checkIdentity(identityDirectory, { ...expected, nowMs: clock.wallMs() });
    if (check.kind === "unusable") {
      if (check.problem === "missing") return this.#join("this agent has not joined one yet", signal);
      log.warn(`The stored identity cannot be used: ${check.message}`);
      return this.#join(check.message, signal);
    }
    this.#colonyId = check.identity.colonyId;
    this.#endpoint = await this.#findColony(check.identity.colonyId);
    if (this.#endpoint === undefined) return this.#join("nothing says where the colony is", signal);
    return clock.wallMs() >= check.identity.renewAtMs ? this.#renew(check.identity, signal) : check.identity;
  }

  async #findColony(colonyId: string): Promise<string | undefined> {
    const { endpoint, locateColony, endpointMemory } = this.#options;
    return endpoint ?? (await locateColony(colonyId)) ?? this.#endpoint ?? (await endpointMemory.read());
  }

  async #join(why: string, signal: AbortSignal): Promise<Identity> {
    const { identityDirectory, agentId, owner, obtainToken, endpointMemory, clock, log } = this.#options;
    const lastError = "lastError" in this.#state ? this.#state.lastError : undefined;
    this.#state = { kind: "joining", sinceMs: clock.wallMs(), ...(lastError === undefined ? {} : { lastError }) };
    const text = await obtainToken();
    if (text === undefined) {
      throw new CoralError({
        code: "unauthenticated",
        message: `Cannot join${this.#options.colonyId === undefined ? " a colony" : ` colony "${this.#options.colonyId}"`}: ${why}, and there is no join token; make one at the colony with \`coral colony token create\` and start the agent with --token`,
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
    await endpointMemory.write(endpoint);
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

  /** Registers, opens the tunnel and stays until it ends or the certificate is due. Gives the reason. */
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
    this.#live = { sessionId: registered.sessionId, identity, endpoint, protocolVersion: registered.protocolVersion };
    const over = this.#untilDue(identity, held.signal).then(
      () => new CoralError({ code: "cancelled", message: "the certificate is due for renewal" }),
      () => new CoralError({ code: "cancelled", message: "this agent has changed" }),
    );
    const ended = await Promise.race([tunnel.closed, over]);
    this.#live = undefined;
    held.abort();
    return ended;
  }

  /** Until the certificate is due for renewal and nothing runs through the tunnel, or can wait no longer. */
  async #untilDue(identity: Identity, signal: AbortSignal): Promise<void> {
    const { clock, isBusy } = this.#options;
    await sleep(Math.min(Math.max(1_000, identity.renewAtMs - clock.wallMs()), maxTimerMs), signal);
    const lastMs = identity.notAfterMs - renewAtTheLatestMs;
    while (isBusy?.() === true && clock.wallMs() < lastMs) await sleep(busyCheckMs, signal);
  }

  #fail(error: CoralError): void {
    const { clock, log } = this.#options;
    const isRefusal = refusalCodes.has(error.code);
    const isNews = !("lastError" in this.#state) || this.#state.lastError !== error.message;
    this.#state = { kind: isRefusal ? "refused" : "connecting", sinceMs: clock.wallMs(), lastError: error.message };
    log[isNews ? "warn" : "debug"](`Not connected to the colony: ${error.message}`, { code: error.code });
  }
}
