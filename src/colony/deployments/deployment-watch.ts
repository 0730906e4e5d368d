/** Detects new builds of services, follows their rollout, and compares each with the time before at several points. */

import { createHash } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { Resolved } from "../../model/services.ts";
import { type ColonyStore } from "../../store/colony/index.ts";
import {
  type BuildShare,
  buildsSettledMs,
  type DeploymentRecord,
  type KnownBuild,
  type LateRows,
  listDeployments,
  loadBuildProgress,
  loadKnownBuilds,
  queryBuildFacts,
  queryServedRequests,
  readBuilds,
  saveDeployments,
} from "../../store/queries/index.ts";
import {
  type BuildReport,
  compareBuilds,
  type Deployment,
  type DeploymentState,
  type DeploymentsRequest,
  type MarkDeploymentRequest,
  reasonOf,
  type Verdict,
  verdictOf,
} from "../../tools/index.ts";
import { type DeploymentEvent, DeploymentEvents } from "./deployment-events.ts";
import { type FoundDeployment, KnownBuilds, placesOf } from "./known-builds.ts";
import { type RolloutState, rolloutState, withRequests } from "./rollout-state.ts";

export interface DeploymentSettings {
  /** How long after a deployment comparisons continue. */
  windowMs: number;
  /** The longest delay until new rows arrive. */
  lagMs: number;
}

export interface DeploymentWatchOptions {
  store: ColonyStore;
  settings: () => DeploymentSettings;
  clock: Clock;
  log: Logger;
  /** Names of services for messages; their rows hold ids. */
  names?: () => Promise<{ labelOf: (service: string) => string }>;
  /** An agent's clock minus the colony's; null when unknown. */
  clockDifferenceMs?: (agentId: string) => number | null;
  /** Rises when processes or requests arrive; absent: each step looks for them. */
  newest?: () => number;
}

/** Points of the window at which a deployment is evaluated; the false-alarm rate is divided among them. */
const looks = [1 / 15, 1 / 6, 1 / 2, 1];
/** Two origins that report a new build of one service within this time mean the same deployment. */
const sameMs = 180_000;
/** The same for marks, which people and pipelines set somewhat earlier or later. */
const sameMarkMs = 600_000;
/** Rows count as late when they arrive this much later than twice the usual delay. */
const lateAfterMs = 10_000;
/** Window for counting requests of builds side by side. */
const sharesMs = 300_000;
/** Least interval of storing read progress. After a restart the rest is read again, which is idempotent. */
const savedEachMs = 60_000;
const openMax = 500;
/** How often builds are judged while nothing arrives. */
const quietIntervalMs = 60_000;
/** A deployment detected later than this is listed but not compared: retention may have removed its data. */
const maxAgeMs = 24 * 3_600_000;

export class DeploymentWatch {
  readonly #options: DeploymentWatchOptions;
  #labelOf: (service: string) => string = (service) => service;
  readonly #words = new DeploymentEvents((service) => this.#labelOf(service));
  #builds: KnownBuilds | undefined;
  #readUpTo: number | null = null;
  #savedMs = 0;
  #newest = -1;
  #newestMs = Number.NEGATIVE_INFINITY;
  #detectedMs = Number.NEGATIVE_INFINITY;
  /** Whether some deployment may still be compared. */
  #hasOpen = true;
  /** Serializes detection and marks, so that no deployment is created twice. */
  #queue: Promise<unknown> = Promise.resolve();

  constructor(options: DeploymentWatchOptions) {
    this.#options = options;
  }

  /** Detects and compares once. Called every few seconds. */
  async step(): Promise<void> {
    if (this.#isNews()) await this.#inTurn(() => this.#detect());
    if (this.#hasOpen) await this.#inTurn(() => this.#compare());
  }

  /** Rows are read when they have settled; without any, builds only end. */
  #isNews(): boolean {
    const { newest, clock } = this.#options;
    if (newest === undefined) return true;
    const nowMs = clock.monotonicMs();
    if (newest() !== this.#newest) this.#newestMs = nowMs;
    this.#newest = newest();
    return this.#detectedMs < this.#newestMs + buildsSettledMs || nowMs - this.#detectedMs >= quietIntervalMs;
  }

  /** Newest first. */
  async list({ sinceMs, ...request }: Resolved<DeploymentsRequest>): Promise<Deployment[]> {
    const records = await listDeployments(this.#options.store, { ...request, fromMs: this.#options.clock.wallMs() - sinceMs });
    return records.map(deploymentOf);
  }

  /** Adds a mark to a deployment of the service detected at about that time, or creates one. */
  mark(request: MarkDeploymentRequest, caller: string | null): Promise<{ deployment: Deployment; isNew: boolean }> {
    return this.#inTurn(() => this.#mark(request, caller));
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const named = async (): Promise<T> => {
      const names = await this.#options.names?.();
      if (names) this.#labelOf = (service) => names.labelOf(service);
      return await work();
    };
    const run = this.#queue.then(named, named);
    this.#queue = run.catch(() => undefined); // the caller gets the failure; the queue continues
    return run;
  }

  async #detect(): Promise<void> {
    const { store, clock, settings, clockDifferenceMs } = this.#options;
    const [nowMs, beganMs] = [clock.wallMs(), clock.monotonicMs()];
    this.#builds ??= new KnownBuilds({
      known: await loadKnownBuilds(store),
      nowMs,
      ...(clockDifferenceMs === undefined ? {} : { clockDifferenceMs }),
    });
    this.#readUpTo ??= await loadBuildProgress(store);
    const reading = await readBuilds(store, { after: this.#readUpTo, nowMs, lateMs: 2 * settings().lagMs + lateAfterMs });
    const news = this.#builds.observe(reading, nowMs);
    const recent = await this.#recent(nowMs);
    const changed = new Map<string, DeploymentRecord>();
    const events: DeploymentEvent[] = [];
    for (const found of news.found) {
      const joined = joinFound(recent, found);
      const record = joined ?? recordOf(found, nowMs);
      changed.set(record.id, record);
      if (joined) continue;
      Object.assign(record, this.#stateOf(record, nowMs));
      // Builds that already ran side by side for long when first seen are variants, not a deployment.
      if (record.state === "variant") changed.delete(record.id);
      else {
        recent.push(record);
        events.push(this.#words.found(record));
      }
    }
    for (const record of recent) {
      if (this.#spread(record) || markLate(record, reading.late, settings().windowMs)) changed.set(record.id, record);
      const event = await this.#follow(record, nowMs);
      if (event === null) continue;
      changed.set(record.id, record);
      events.push(...event);
    }
    const isDue = reading.upTo !== null && (changed.size > 0 || news.builds.length > 0 || nowMs - this.#savedMs >= savedEachMs);
    if (isDue) this.#savedMs = nowMs;
    await saveDeployments(
      store,
      {
        builds: news.builds,
        deployments: [...changed.values()],
        events,
        ...(isDue && reading.upTo !== null ? { readUpTo: reading.upTo } : {}),
      },
      nowMs,
    );
    if (changed.size > 0) this.#hasOpen = true;
    this.#readUpTo = reading.upTo ?? this.#readUpTo;
    this.#detectedMs = beganMs;
  }

  /** Adds hosts that a build has reached since; true when there were any. Late rows may show an earlier start. */
  #spread(record: DeploymentRecord): boolean {
    const build = this.#buildOf(record);
    // A record without places applies to all agents already.
    if (build === undefined || record.places.length === 0 || record.state === "rolled-back") return false;
    const startedMs = Math.min(record.startedMs, build.firstSeenMs);
    const places = placesOf(build).map(
      (place) => record.places.find(({ agentId, atMs }) => agentId === place.agentId && atMs <= place.atMs) ?? place,
    );
    const added = places.filter((place) => !record.places.includes(place));
    const isEarlier = startedMs < record.startedMs - 1_000;
    if (added.length === 0 && !isEarlier) return false;
    record.places = [...record.places.filter(({ agentId }) => !places.some((place) => place.agentId === agentId)), ...places];
    if (isEarlier) {
      record.startedMs = startedMs;
      if (record.looks > 0) record.evaluatedMs = null;
    }
    return true;
  }

  /** Updates the rollout of a deployment; null when nothing changed. */
  async #follow(record: DeploymentRecord, nowMs: number): Promise<DeploymentEvent[] | null> {
    const build = this.#buildOf(record);
    const before = { ...record };
    const state = build && this.#stateOf(record, nowMs);
    if (!build || !state) return null;
    if (state.shares.length > 0) state.shares = await this.#withRequests(record.service, build, state.shares, nowMs);
    Object.assign(record, state);
    const previous = this.#builds?.previousOf(build, this.#builds.buildsOf(build.service, build.foundBy), nowMs);
    // The replaced build becomes clear once one of several stops, or when late rows show a build in between.
    if (previous && record.startedMs === build.firstSeenMs && !record.foundBy.includes("mark")) {
      record.previousBuild = previous.build || null;
      record.previousVersion = previous.version || null;
    }
    const isSame =
      before.state === record.state &&
      before.previousBuild === record.previousBuild &&
      before.previousVersion === record.previousVersion &&
      JSON.stringify(before.shares.map(withoutRequests)) === JSON.stringify(record.shares.map(withoutRequests));
    if (isSame) return null;
    return before.state === record.state ? [] : this.#words.moved(record, nowMs);
  }

  #stateOf(record: DeploymentRecord, nowMs: number): RolloutState | null {
    const build = this.#buildOf(record);
    if (!build || !this.#builds) return null;
    const previous = { build: record.previousBuild ?? "", version: record.previousVersion ?? "" };
    return rolloutState(this.#builds, { build, previous, nowMs, variantMs: 2 * this.#options.settings().windowMs });
  }

  #buildOf({ service, build, version }: DeploymentRecord): KnownBuild | undefined {
    const of = (foundBy: "process" | "span"): readonly KnownBuild[] => this.#builds?.buildsOf(service, foundBy) ?? [];
    const processes = of("process").filter((one) => (build === null ? version !== null && one.version === version : one.build === build));
    return processes.find((one) => one.version === (version ?? "")) ?? processes[0] ?? of("span").find((one) => one.version === version);
  }

  async #withRequests(service: string, { foundBy }: KnownBuild, shares: BuildShare[], nowMs: number): Promise<BuildShare[]> {
    const builds = this.#builds;
    if (!builds) return shares;
    const served = await queryServedRequests(this.#options.store, { service, fromMs: nowMs - sharesMs, untilMs: nowMs });
    return withRequests(shares, served, (share) => {
      const build = builds
        .buildsOf(service, foundBy)
        .find((one) => one.build === (share.build ?? "") && one.version === (share.version ?? ""));
      return (build?.places ?? []).filter((place) => build && builds.isAt(build, place, nowMs)).map(({ agentId }) => agentId);
    });
  }

  #recent(nowMs: number): Promise<DeploymentRecord[]> {
    return listDeployments(this.#options.store, { fromMs: nowMs - maxAgeMs, limit: 10 * openMax });
  }

  async #mark(request: MarkDeploymentRequest, caller: string | null): Promise<{ deployment: Deployment; isNew: boolean }> {
    const { store, clock } = this.#options;
    const nowMs = clock.wallMs();
    const startedMs = nowMs - request.agoMs;
    const near = (await listDeployments(store, { service: request.service, fromMs: startedMs - sameMarkMs, limit: 50 }))
      .filter((one) => Math.abs(one.startedMs - startedMs) <= sameMarkMs && !one.foundBy.includes("mark"))
      .sort((a, b) => Math.abs(a.startedMs - startedMs) - Math.abs(b.startedMs - startedMs))[0];
    const base: DeploymentRecord = near ?? {
      ...recordOf(
        {
          service: request.service,
          foundBy: "version",
          startedMs,
          build: null,
          previousBuild: null,
          version: null,
          previousVersion: (await lastVersion(store, request.service)) ?? null,
          places: [],
        },
        nowMs,
      ),
      foundBy: [],
    };
    const record: DeploymentRecord = {
      ...base,
      foundBy: [...base.foundBy, "mark"],
      version: request.version ?? base.version,
      note: request.note,
      markedBy: caller ?? "unknown",
    };
    await saveDeployments(store, { builds: [], deployments: [record], events: near ? [] : [this.#words.found(record)] }, nowMs);
    this.#hasOpen = true;
    return { deployment: deploymentOf(record), isNew: near === undefined };
  }

  async #compare(): Promise<void> {
    const { store, clock, log, settings } = this.#options;
    const nowMs = clock.wallMs();
    const open = await listDeployments(store, { open: true, limit: openMax });
    this.#hasOpen = open.length > 0;
    for (const record of open) {
      const isLate = record.looks > 0 && record.evaluatedMs === null;
      const next = nextLook(record, nowMs, settings()) ?? (isLate ? record.looks - 1 : null);
      const siblings = await listDeployments(store, { service: record.service, limit: 200 });
      const replaced = siblings.filter((one) => one.startedMs > record.startedMs).at(-1);
      const before = siblings.find((one) => one.startedMs < record.startedMs);
      const isEnded = replaced !== undefined || record.state === "rolled-back";
      if (next === null && (!isEnded || record.isComplete)) continue;
      const updated = await this.#look(record, { look: next, replaced, before }, nowMs);
      if (updated.verdict === "regression" && record.verdict !== "regression") {
        log.info("Deployment caused a regression", { service: this.#labelOf(record.service), deployment: record.id });
      }
      const events = this.#words.judged(record, updated, nowMs);
      await saveDeployments(store, { builds: [], deployments: [updated], events }, nowMs);
    }
  }

  async #look(
    record: DeploymentRecord,
    found: { look: number | null; replaced: DeploymentRecord | undefined; before: DeploymentRecord | undefined },
    nowMs: number,
  ): Promise<DeploymentRecord> {
    const { store, settings } = this.#options;
    const { windowMs } = settings();
    const [guardMs, warmUpMs] = [windowMs / 60, windowMs / 30];
    const look = found.look ?? looks.length - 1;
    const wholeMs = (looks[look] ?? 1) * windowMs;
    const endedMs = Math.min(found.replaced?.startedMs ?? Number.POSITIVE_INFINITY, goneMs(record));
    const untilReplacedMs = endedMs - guardMs - record.startedMs - warmUpMs;
    const afterMs = Math.min(wholeMs, untilReplacedMs);
    const sinceBeforeMs = found.before ? record.startedMs - guardMs - found.before.startedMs - warmUpMs : Number.POSITIVE_INFINITY;
    const beforeMs = Math.min(2 * windowMs, sinceBeforeMs);
    const isComplete = record.isComplete || look === looks.length - 1 || Number.isFinite(endedMs) || nowMs - record.startedMs > maxAgeMs;
    const base = { ...record, looks: Math.max(record.looks, look + 1), isComplete, evaluatedMs: nowMs };
    const cellMs = Math.max(1_000, windowMs / 180);
    if (afterMs < cellMs || beforeMs < cellMs) return { ...base, verdict: record.looks > 0 ? record.verdict : "not-enough-data" };
    const facts = await queryBuildFacts(store, { ...record, guardMs, warmUpMs, beforeMs, afterMs, cellMs });
    const report = compareBuilds(facts, looks.length);
    const verdict = verdictOf(report);
    // An idle service has less data at each comparison: keep the verdict from when it was busy.
    if (verdict === "not-enough-data" && record.verdict !== "not-enough-data") return base;
    return { ...base, verdict, report: JSON.stringify(report) };
  }
}

/** The latest evaluation whose data has arrived; null when none is due. */
function nextLook(record: DeploymentRecord, nowMs: number, { windowMs, lagMs }: DeploymentSettings): number | null {
  const seenMs = nowMs - lagMs - record.startedMs - windowMs / 30;
  const due = looks.findLastIndex((share, index) => index >= record.looks && share * windowMs <= seenMs);
  return due === -1 ? null : due;
}

/** Merges a finding into a deployment that another origin reported, filling in missing fields. */
function joinFound(records: DeploymentRecord[], found: FoundDeployment): DeploymentRecord | undefined {
  const record = records.find((one) => {
    if (one.service !== found.service || one.foundBy.includes(found.foundBy)) return false;
    const withinMs = one.foundBy.includes("mark") ? sameMarkMs : sameMs;
    return Math.abs(one.startedMs - found.startedMs) <= withinMs;
  });
  if (!record) return undefined;
  record.foundBy = [...record.foundBy, found.foundBy];
  record.build ??= found.build;
  record.previousBuild ??= found.previousBuild;
  record.version ??= found.version;
  record.previousVersion ??= found.previousVersion;
  if (found.foundBy === "build") record.places = found.places;
  return record;
}

const withoutRequests = ({ requests: _requests, ...share }: BuildShare): Omit<BuildShare, "requests"> => share;

/** When a rolled-back build stopped. */
function goneMs({ state, endedMs }: DeploymentRecord): number {
  return state === "rolled-back" ? (endedMs ?? Number.POSITIVE_INFINITY) : Number.POSITIVE_INFINITY;
}

/** Schedules another comparison when rows of the compared times arrived late; true when it did. */
function markLate(record: DeploymentRecord, late: readonly LateRows[], windowMs: number): boolean {
  if (record.looks === 0 || record.evaluatedMs === null) return false;
  const [fromMs, untilMs] = [record.startedMs - 2.1 * windowMs, record.startedMs + 1.1 * windowMs];
  if (!late.some((rows) => rows.service === record.service && rows.fromMs < untilMs && rows.untilMs >= fromMs)) return false;
  record.evaluatedMs = null;
  return true;
}

function recordOf(found: FoundDeployment, nowMs: number): DeploymentRecord {
  const key = JSON.stringify([found.service, found.build, found.version, Math.round(found.startedMs)]);
  return {
    ...found,
    id: `dep-${createHash("sha256").update(key).digest("hex").slice(0, 10)}`,
    noticedMs: nowMs,
    foundBy: [found.foundBy],
    note: "",
    markedBy: null,
    looks: 0,
    isComplete: nowMs - found.startedMs > maxAgeMs,
    verdict: "not-enough-data",
    evaluatedMs: null,
    report: null,
    state: "complete",
    shares: [],
    endedMs: null,
  };
}

async function lastVersion(store: ColonyStore, service: string): Promise<string | null | undefined> {
  return (await listDeployments(store, { service, limit: 1 }))[0]?.version;
}

function deploymentOf(record: DeploymentRecord): Deployment {
  const report = record.report === null ? null : (JSON.parse(record.report) as BuildReport);
  const verdict = record.verdict as Verdict;
  return {
    id: record.id,
    service: record.service,
    at: new Date(record.startedMs).toISOString(),
    foundBy: record.foundBy as Deployment["foundBy"],
    build: record.build,
    previousBuild: record.previousBuild,
    version: record.version,
    previousVersion: record.previousVersion,
    note: record.note,
    markedBy: record.markedBy,
    agents: record.places.map(({ agentId }) => agentId),
    verdict,
    reason: reasonOf(verdict, report, record.isComplete),
    isComplete: record.isComplete,
    report,
    state: record.state as DeploymentState,
    shares: record.shares,
    endedAt: record.endedMs === null ? null : new Date(record.endedMs).toISOString(),
  };
}
