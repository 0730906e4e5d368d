/**
 * The agents of this colony: their stored records with current health, session and lag. Sessions exist in memory only; after a restart of the colony
 * every agent registers again.
 */

import { randomUUID } from "node:crypto";
import { background } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { formatBitRate, formatBytes, formatDurationMs } from "../../base/units.ts";
import { pullReason, type RuntimeFacts } from "../../model/runtime-facts.ts";
import {
  type AgentRecord,
  type AgentRegistration,
  type ColonyStore,
  listAgents,
  recordConflict,
  recordEvent,
  revokeAgent,
  touchAgents,
  upsertAgent,
} from "../../store/colony/index.ts";
import { type NamingLimits, storeNamingLimits } from "../../store/discovery/index.ts";
import type { Tunnel } from "../../transport/index.ts";
import { type AgentHealth, type HealthThresholds, HealthTracker, silenceBeforeRestartMs } from "./agent-health.ts";
import type { AgentLink } from "./agent-link.ts";
import { RequestRecorders } from "./request-recorders.ts";
import type { Revocations } from "./revocations.ts";
import type { RuntimeRegistry } from "./runtime-registry.ts";

export interface Session {
  readonly id: string;
  readonly agentId: string;
  readonly host: AgentHost;
  readonly pidNamespace: number;
  readonly epoch: string;
  /** Absent until the agent has dialled its tunnel. */
  tunnel?: Tunnel;
  /** Until then (monotonic) its first tunnel is expected, and no other host can take the id. */
  expectedUntilMs: number;
}

export interface AgentHost {
  hostname: string;
  machineId: string;
  bootId: string;
}

export interface AgentEntry {
  record: AgentRecord;
  tracker: HealthTracker;
  /** As last reported in an event. */
  reportedHealth: AgentHealth;
  session?: Session;
  pullLagMs: number | null;
  /** Link of the current session; absent until measured. */
  link?: AgentLink;
  /** Why the agent cannot store rows, by its last answer; empty: it can. */
  storeProblem: string;
  /** Hosts that were refused because this id is in use → when that was last reported, monotonic. */
  claimants: Map<string, number>;
  /** The agent's wall clock minus the colony's, at registration. */
  clockDifferenceMs: number | null;
  certificateExpiresAtMs: number | null;
}

export interface AgentRegistryOptions {
  store: ColonyStore;
  revocations: Pick<Revocations, "has" | "add">;
  /** Absent: runtimes of agents are not stored. */
  runtimes?: RuntimeRegistry;
  /** Boot id of the colony's kernel; agents of the same boot share its clock. Default: unknown. */
  bootId?: string;
  clock: Clock;
  thresholds: HealthThresholds;
  log: Logger;
  /** Whether the agent behind a tunnel still responds. */
  isAlive: (tunnel: Tunnel) => Promise<boolean>;
}

/** A refused host retries twice a minute; it is reported once in this time. */
const claimantReportMs = 3_600_000;
const maxClaimants = 64;
/** An agent's own words end up in answers and events. */
const maxProblemLength = 512;
/** How long to wait for the tunnel of a new registration: agents dial right after it. */
const firstTunnelMs = 10_000;

export interface RegistrationFacts extends AgentRegistration {
  /** The agent's wall clock. */
  wallMs: number;
  /** Inode of the namespace whose processes it observes; absent or 0: unknown. */
  pidNamespace?: number;
  /** Limits on naming the external addresses that it reports; absent or null for none. */
  naming?: NamingLimits | null;
  /** Absent or null when the agent does not report its runtime. */
  runtime?: RuntimeFacts | null;
  /** The session that this registration updates; absent or empty for a new session. */
  sessionId?: string;
  changeReason?: string;
}

export class AgentRegistry {
  readonly #options: AgentRegistryOptions;
  readonly #entries = new Map<string, AgentEntry>();
  readonly #sessions = new Map<string, Session>();
  /** The latest registration in progress of each agent id. */
  readonly #registering = new Map<string, Promise<Session>>();
  #touched = new Set<string>();
  /** Called when a connected agent has rows that a user waits for; set by what pulls. */
  onPullWanted: (agentId: string) => void = () => undefined;
  /** Which agents count the requests of a kernel that several observe. */
  readonly recorders = new RequestRecorders();

  private constructor(options: AgentRegistryOptions) {
    this.#options = options;
  }

  static async open(options: AgentRegistryOptions): Promise<AgentRegistry> {
    const registry = new AgentRegistry(options);
    const records = await listAgents(options.store);
    // Contacts in the future (the clock was set back since) would make every other agent look silent.
    const nowUs = options.clock.wallMs() * 1_000;
    const newestUs = Math.max(0, ...records.map((record) => record.lastSeenAt).filter((seenAt) => seenAt <= nowUs));
    for (const record of records) {
      const silentMs = silenceBeforeRestartMs(record.lastSeenAt / 1_000, newestUs / 1_000);
      const tracker = new HealthTracker(options.thresholds, options.clock.monotonicMs() - silentMs);
      registry.#entries.set(record.agentId, {
        record,
        tracker,
        reportedHealth: tracker.evaluate(options.clock.monotonicMs()),
        pullLagMs: record.pullLagMs,
        storeProblem: "",
        claimants: new Map(),
        clockDifferenceMs: null,
        certificateExpiresAtMs: null,
      });
    }
    return registry;
  }

  entries(): IterableIterator<AgentEntry> {
    return this.#entries.values();
  }

  find(agentId: string): AgentEntry | undefined {
    return this.#entries.get(agentId);
  }

  isRevoked(agentId: string): boolean {
    return this.#options.revocations.has(agentId) || (this.#entries.get(agentId)?.record.revokedAt ?? null) !== null;
  }

  /** By its last contact. An agent that answers, but too slowly or without storing what it sees, is degraded. */
  healthOf({ tracker, link, storeProblem }: AgentEntry): AgentHealth {
    const byContact = tracker.evaluate(this.#options.clock.monotonicMs());
    return byContact === "healthy" && (link?.isSlow || storeProblem !== "") ? "degraded" : byContact;
  }

  /**
   * Registers an agent, or updates a session. Throws `already-exists` when another live host has the id. Registrations of one id run one at a time: of
   * two simultaneous hosts, the second finds the first.
   */
  async register(facts: RegistrationFacts): Promise<Session> {
    const { agentId } = facts;
    const previous = this.#registering.get(agentId);
    const run = (async () => {
      await Promise.allSettled([previous]);
      return await this.#register(facts);
    })();
    this.#registering.set(agentId, run);
    try {
      return await run;
    } finally {
      if (this.#registering.get(agentId) === run) this.#registering.delete(agentId);
    }
  }

  async #register(facts: RegistrationFacts): Promise<Session> {
    const { sessionId = "" } = facts;
    return sessionId === "" ? await this.#begin(facts) : await this.#renew(facts, sessionId);
  }

  /** Updates the facts of a connected agent; its session and tunnel stay. Throws `not-found` for an unknown session. */
  async #renew(facts: RegistrationFacts, sessionId: string): Promise<Session> {
    const session = this.#sessions.get(sessionId);
    const entry = this.#entries.get(facts.agentId);
    const host: AgentHost = { hostname: facts.hostname, machineId: facts.machineId, bootId: facts.bootId };
    if (
      !entry ||
      session?.agentId !== facts.agentId ||
      entry.session !== session ||
      session.epoch !== facts.epoch ||
      !isSameHost(session.host, host)
    ) {
      throw new CoralError({
        code: "not-found",
        message: `Cannot update the registration of agent "${facts.agentId}": unknown session; register without a session id`,
      });
    }
    const nowUs = this.#options.clock.wallMs() * 1_000;
    const registration = await this.#store(facts, nowUs);
    Object.assign(entry.record, registration, { lastSeenAt: nowUs, registeredAt: nowUs });
    entry.clockDifferenceMs = this.#clockDifferenceMs(facts);
    entry.tracker.contact(this.#options.clock.monotonicMs());
    this.#updateRecorder(entry);
    if (facts.changeReason === pullReason) this.onPullWanted(facts.agentId);
    return session;
  }

  /** An agent records requests while it is connected and its hooks are on. */
  #updateRecorder({ record, session, clockDifferenceMs }: AgentEntry): void {
    const { agentId, bootId, capabilities } = record;
    const nowMs = this.#options.clock.wallMs();
    const isRecording = session?.tunnel !== undefined && capabilities.some(({ name, available }) => name === "traffic" && available);
    if (isRecording)
      this.recorders.add({ agentId, bootId, pidNamespace: session.pidNamespace, clockDifferenceMs: clockDifferenceMs ?? 0 }, nowMs);
    else this.recorders.remove(agentId, nowMs);
  }

  /** Stores the facts of a registration; returns those that are columns of the agent's row. */
  async #store(facts: RegistrationFacts, nowUs: number): Promise<AgentRegistration> {
    const { store, runtimes } = this.#options;
    const {
      wallMs: _wallMs,
      pidNamespace: _namespace,
      naming = null,
      runtime = null,
      sessionId: _session,
      changeReason = "",
      ...registration
    } = facts;
    await upsertAgent(store, registration, nowUs);
    // Stored before the agent's first row can arrive.
    await storeNamingLimits(store, facts.agentId, naming);
    await runtimes?.update(facts.agentId, runtime, changeReason);
    return registration;
  }

  async #begin(facts: RegistrationFacts): Promise<Session> {
    const host: AgentHost = { hostname: facts.hostname, machineId: facts.machineId, bootId: facts.bootId };
    const holder = this.#entries.get(facts.agentId);
    const previous = holder?.session;
    if (holder && previous) await this.#checkHolder(holder, previous, host);
    const { store, clock, thresholds } = this.#options;
    const nowUs = clock.wallMs() * 1_000;
    const registration = await this.#store(facts, nowUs);
    const known = this.#entries.get(facts.agentId);
    const expectedUntilMs = clock.monotonicMs() + firstTunnelMs;
    const { agentId, epoch, pidNamespace = 0 } = facts;
    const session: Session = { id: randomUUID(), agentId, host, pidNamespace, epoch, expectedUntilMs };
    const record: AgentRecord = {
      ...registration,
      firstSeenAt: known?.record.firstSeenAt ?? nowUs,
      lastSeenAt: nowUs,
      registeredAt: nowUs,
      revokedAt: known?.record.revokedAt ?? null,
      pullLagMs: known?.pullLagMs ?? null,
    };
    if (!known) {
      const message = `Agent ${facts.agentId} on host "${facts.hostname}" has joined`;
      await recordEvent(store, { at: nowUs, kind: "agent-joined", agentId: facts.agentId, message, details: { hostname: facts.hostname } });
    }
    this.#dropSession(previous, "replaced by a newer registration");
    const tracker = known?.tracker ?? new HealthTracker(thresholds, clock.monotonicMs());
    tracker.contact(clock.monotonicMs());
    this.#entries.set(facts.agentId, {
      record,
      tracker,
      reportedHealth: known?.reportedHealth ?? "healthy",
      session,
      pullLagMs: known?.pullLagMs ?? null,
      storeProblem: "",
      claimants: known?.claimants ?? new Map<string, number>(),
      clockDifferenceMs: this.#clockDifferenceMs(facts),
      certificateExpiresAtMs: known?.certificateExpiresAtMs ?? null,
    });
    this.#sessions.set(session.id, session);
    return session;
  }

  /** Clock difference; 0 for an agent of the colony's own boot, where a slow registration would look like a clock that is behind. */
  #clockDifferenceMs({ bootId, wallMs }: RegistrationFacts): number {
    const { bootId: own = "", clock } = this.#options;
    return own !== "" && bootId === own ? 0 : Math.round(wallMs - clock.wallMs());
  }

  /** Binds a tunnel to the session that its agent sent in Hello; undefined for an unknown session: the agent must register first. */
  attach(sessionId: string, tunnel: Tunnel): Session | undefined {
    const session = this.#sessions.get(sessionId);
    if (!session || session.agentId !== tunnel.agentId) return undefined;
    if (session.tunnel) background(this.#options.log, "Closing a replaced tunnel", session.tunnel.close("replaced by a newer tunnel"));
    session.tunnel = tunnel;
    session.expectedUntilMs = Number.NEGATIVE_INFINITY;
    const entry = this.#entries.get(session.agentId);
    if (entry) {
      entry.certificateExpiresAtMs = tunnel.certificateNotAfterMs;
      this.#updateRecorder(entry);
    }
    this.contact(session.agentId);
    return session;
  }

  detach(session: Session, tunnel: Tunnel): void {
    if (session.tunnel !== tunnel) return;
    delete session.tunnel;
    const entry = this.#entries.get(session.agentId);
    if (entry?.session === session) delete entry.link;
    // A newer session may have taken its place.
    if (entry?.session === session) this.#updateRecorder(entry);
  }

  contact(agentId: string, pullLagMs?: number): void {
    const entry = this.#entries.get(agentId);
    if (!entry) return;
    entry.tracker.contact(this.#options.clock.monotonicMs());
    entry.record.lastSeenAt = this.#options.clock.wallMs() * 1_000;
    if (pullLagMs !== undefined) entry.pullLagMs = pullLagMs;
    this.#touched.add(agentId);
  }

  /** Records the measured link of the agent. */
  measured(agentId: string, link: AgentLink): void {
    const entry = this.#entries.get(agentId);
    if (!entry) return;
    if (link.isSlow !== (entry.link?.isSlow ?? false)) {
      const figures = `${formatBytes(link.pullBytes)} took ${formatDurationMs(link.pullMs)} (${formatBitRate(link.bytesPerSecond)})`;
      const { log } = this.#options;
      if (link.isSlow) log.warn(`The link to agent ${agentId} is slow: ${figures}, mean of the last pulls; its network or host is slow`);
      else log.info(`The link to agent ${agentId} is fast again: ${figures}, mean of the last pulls`);
    }
    entry.link = link;
  }

  storeProblem(agentId: string, problem: string): void {
    const entry = this.#entries.get(agentId);
    if (entry) entry.storeProblem = problem.slice(0, maxProblemLength);
  }

  /** Writes last contacts and deferred runtimes. Called every few seconds and before closing. */
  async flush(isLast = false): Promise<void> {
    await this.#options.runtimes?.flush(isLast);
    const touched = this.#touched;
    if (touched.size === 0) return;
    this.#touched = new Set();
    const touches = [...touched].flatMap((agentId) => {
      const entry = this.#entries.get(agentId);
      if (!entry) return [];
      return [{ agentId, lastSeenAt: entry.record.lastSeenAt, ...(entry.pullLagMs === null ? {} : { pullLagMs: entry.pullLagMs }) }];
    });
    await touchAgents(this.#options.store, touches);
  }

  /** Records an event for each agent whose health changed since the last call. */
  async reportHealthChanges(): Promise<void> {
    const { store, clock, log } = this.#options;
    for (const entry of this.#entries.values()) {
      // Revoked agents are expected to be silent.
      if (entry.record.revokedAt !== null) continue;
      const health = this.healthOf(entry);
      const before = entry.reportedHealth;
      if (health === before) continue;
      const { agentId, hostname } = entry.record;
      const why = health === "degraded" && entry.storeProblem !== "" ? `: it cannot store rows: ${entry.storeProblem}` : "";
      const message = `Agent ${agentId} on host "${hostname}" is ${health} (was ${before})${why}`;
      await recordEvent(store, {
        at: clock.wallMs() * 1_000,
        kind: "agent-health-changed",
        agentId,
        message,
        details: { before, after: health, hostname },
      });
      // Set after recording, so that a failed write is retried. The entry may have been replaced meanwhile.
      const recorded = this.#entries.get(agentId);
      if (recorded) recorded.reportedHealth = health;
      log[health === "healthy" ? "info" : "warn"](message);
    }
  }

  /** Refuses the agent from now on and closes its tunnel. Throws `not-found` for an unknown id. */
  async revoke(agentId: string): Promise<void> {
    const entry = this.#entries.get(agentId);
    const { store, clock, revocations } = this.#options;
    const nowUs = clock.wallMs() * 1_000;
    if (!entry) {
      throw new CoralError({
        code: "not-found",
        message: `Cannot revoke agent "${agentId}": no such agent; see \`coral agent list\` for the ids`,
      });
    }
    await revocations.add(agentId);
    entry.record.revokedAt ??= nowUs;
    this.#dropSession(entry.session, "revoked");
    delete entry.session;
    this.#updateRecorder(entry);
    // The agent is refused from here on, even if the store cannot be written.
    await revokeAgent(store, agentId, nowUs);
    await recordEvent(store, { at: nowUs, kind: "agent-revoked", agentId, message: `Agent ${agentId} was revoked`, details: {} });
  }

  #dropSession(session: Session | undefined, reason: string): void {
    if (!session) return;
    this.#sessions.delete(session.id);
    if (session.tunnel) background(this.#options.log, "Closing a tunnel", session.tunnel.close(reason));
  }

  /** Throws when another live agent holds the id, or another host is about to connect with it. A restarted agent of the same host need not wait. */
  async #checkHolder(entry: AgentEntry, { tunnel, host, expectedUntilMs }: Session, claimant: AgentHost): Promise<void> {
    const { agentId } = entry.record;
    const isSame = isSameHost(host, claimant);
    if (!isSame && !tunnel && this.#options.clock.monotonicMs() < expectedUntilMs) {
      throw new CoralError({
        code: "unavailable",
        message: `Cannot register agent "${agentId}": host "${host.hostname}" is connecting with the same id; retry in a few seconds`,
      });
    }
    if (!tunnel || !(await this.#options.isAlive(tunnel))) return;
    if (this.#shouldReport(entry, claimant)) await this.#reportConflict(agentId, host, claimant);
    throw new CoralError({
      code: "already-exists",
      message: `Cannot register agent "${agentId}": ${isSame ? "another agent of this host" : `host "${host.hostname}"`} is connected with the same id; if this ${isSame ? "directory was copied" : "host was cloned"} from it, remove agent-id and identity/ from the agent's directory here and start the agent with a new join token`,
      details: { agentId, holder: host.hostname },
    });
  }

  #shouldReport({ claimants }: AgentEntry, claimant: AgentHost): boolean {
    const key = describeHost(claimant);
    const nowMs = this.#options.clock.monotonicMs();
    if (nowMs - (claimants.get(key) ?? Number.NEGATIVE_INFINITY) < claimantReportMs) return false;
    if (claimants.size >= maxClaimants) claimants.clear();
    claimants.set(key, nowMs);
    return true;
  }

  async #reportConflict(agentId: string, holder: AgentHost, claimant: AgentHost): Promise<void> {
    const { store, clock, log } = this.#options;
    const noticedAt = clock.wallMs() * 1_000;
    const message = isSameHost(holder, claimant)
      ? `Agent id ${agentId} is used by two agents on host "${holder.hostname}"; the second is refused`
      : `Agent id ${agentId} is used by two hosts: "${holder.hostname}" (connected) and "${claimant.hostname}" (refused)`;
    log.warn(message, { agentId, holder, claimant });
    await recordConflict(store, { agentId, hostA: describeHost(holder), hostB: describeHost(claimant), noticedAt });
    await recordEvent(store, { at: noticedAt, kind: "agent-id-duplicate", agentId, message, details: { holder, claimant } });
  }
}

/** Includes the hostname, the only difference between containers of one host. */
function isSameHost(a: AgentHost, b: AgentHost): boolean {
  return a.machineId === b.machineId && a.bootId === b.bootId && a.hostname === b.hostname;
}

function describeHost(host: AgentHost): string {
  return `${host.hostname} (machine ${host.machineId.slice(0, 8)}, boot ${host.bootId.slice(0, 8)})`;
}
