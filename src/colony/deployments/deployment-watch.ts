/** Detects new builds of services, and compares each with the time before at several points until its window is over. */

import { createHash } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import { type ColonyStore } from "../../store/colony/index.ts";
import {
  type DeploymentRecord,
  listDeployments,
  loadKnownBuilds,
  queryBuildFacts,
  queryRunningBuilds,
  querySpanVersions,
  saveDeployments,
} from "../../store/queries/index.ts";
import {
  type BuildReport,
  compareBuilds,
  type Deployment,
  type DeploymentsRequest,
  type MarkDeploymentRequest,
  reasonOf,
  type Verdict,
  verdictOf,
  whatWasDeployed,
} from "../../tools/index.ts";
import { type FoundDeployment, KnownBuilds } from "./known-builds.ts";

export interface DeploymentSettings {
  /** How long after a deployment it is compared. */
  windowMs: number;
  /** The longest delay until new rows arrive. */
  lagMs: number;
}

export interface DeploymentWatchOptions {
  store: ColonyStore;
  settings: () => DeploymentSettings;
  clock: Clock;
  log: Logger;
}

/** Points of the window at which a deployment is evaluated; the false-alarm rate is divided among them. */
const looks = [1 / 15, 1 / 6, 1 / 2, 1];
/** Two origins that report a new build of one service within this time mean the same deployment. */
const sameMs = 180_000;
/** The same for marks, which people and pipelines set somewhat earlier or later. */
const sameMarkMs = 600_000;
const spansBackMs = 120_000;
const openMax = 500;
/** A deployment detected later than this is listed but not compared: data of that time may be gone. */
const maxAgeMs = 24 * 3_600_000;

export class DeploymentWatch {
  readonly #options: DeploymentWatchOptions;
  #builds: KnownBuilds | undefined;
  /** Serializes detection and marks, so that no deployment is created twice. */
  #queue: Promise<unknown> = Promise.resolve();

  constructor(options: DeploymentWatchOptions) {
    this.#options = options;
  }

  /** Detects and compares once. Called every few seconds. */
  async step(): Promise<void> {
    await this.#inTurn(() => this.#detect());
    await this.#inTurn(() => this.#compare());
  }

  /** Newest first. */
  async list({ sinceMs, ...request }: DeploymentsRequest): Promise<Deployment[]> {
    const records = await listDeployments(this.#options.store, { ...request, fromMs: this.#options.clock.wallMs() - sinceMs });
    return records.map(deploymentOf);
  }

  /** Adds a mark to a deployment of the service detected at about that time, or creates one. */
  mark(request: MarkDeploymentRequest, caller: string | null): Promise<{ deployment: Deployment; isNew: boolean }> {
    return this.#inTurn(() => this.#mark(request, caller));
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const run = this.#queue.then(work, work);
    this.#queue = run.catch(() => undefined); // the caller gets the failure; the queue continues
    return run;
  }

  async #detect(): Promise<void> {
    const { store, clock } = this.#options;
    const nowMs = clock.wallMs();
    this.#builds ??= new KnownBuilds(await loadKnownBuilds(store), nowMs);
    const running = [...(await queryRunningBuilds(store)), ...(await querySpanVersions(store, { sinceMs: spansBackMs, nowMs }))];
    const news = this.#builds.observe(running, ["process", "span"], nowMs);
    const isUnchanged = news.found.length === 0 && news.builds.length === 0;
    const open = isUnchanged && news.arrived.length === 0 ? [] : await this.#recent(nowMs);
    const changed = new Map<string, DeploymentRecord>();
    const events = [];
    for (const found of news.found) {
      const joined = joinFound(open, found);
      if (joined) {
        changed.set(joined.id, joined);
        continue;
      }
      const record = recordOf(found, nowMs);
      open.push(record);
      changed.set(record.id, record);
      events.push(eventOf(record));
    }
    for (const arrived of news.arrived) {
      const record = open.find((one) => !one.isComplete && one.service === arrived.service && isSameBuild(one, arrived));
      const added = arrived.places.filter(({ agentId }) => !record?.places.some((place) => place.agentId === agentId));
      // A record without places applies to all agents already.
      if (!record || record.places.length === 0 || added.length === 0) continue;
      record.places = [...record.places, ...added.map((place) => ({ ...place, atMs: Math.max(place.atMs, record.startedMs) }))];
      changed.set(record.id, record);
    }
    await saveDeployments(store, { builds: news.builds, deployments: [...changed.values()], events }, nowMs);
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
    await saveDeployments(store, { builds: [], deployments: [record], events: near ? [] : [eventOf(record)] }, nowMs);
    return { deployment: deploymentOf(record), isNew: near === undefined };
  }

  async #compare(): Promise<void> {
    const { store, clock, log, settings } = this.#options;
    const nowMs = clock.wallMs();
    const open = await listDeployments(store, { open: true, limit: openMax });
    for (const record of open) {
      const next = nextLook(record, nowMs, settings());
      const siblings = await listDeployments(store, { service: record.service, limit: 200 });
      const replaced = siblings.filter((one) => one.startedMs > record.startedMs).at(-1);
      const before = siblings.find((one) => one.startedMs < record.startedMs);
      if (next === null && !replaced) continue;
      const updated = await this.#look(record, { look: next, replaced, before }, nowMs);
      if (updated.verdict === "regression" && record.verdict !== "regression") {
        log.info("Deployment caused a regression", { service: record.service, deployment: record.id });
      }
      const events = verdictEvents(record, updated, nowMs);
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
    const untilReplacedMs = found.replaced ? found.replaced.startedMs - guardMs - record.startedMs - warmUpMs : Number.POSITIVE_INFINITY;
    const afterMs = Math.min(wholeMs, untilReplacedMs);
    const sinceBeforeMs = found.before ? record.startedMs - guardMs - found.before.startedMs - warmUpMs : Number.POSITIVE_INFINITY;
    const beforeMs = Math.min(2 * windowMs, sinceBeforeMs);
    const isComplete = look === looks.length - 1 || found.replaced !== undefined || nowMs - record.startedMs > maxAgeMs;
    const base = { ...record, looks: look + 1, isComplete, evaluatedMs: nowMs };
    const cellMs = Math.max(1_000, windowMs / 180);
    if (afterMs < cellMs || beforeMs < cellMs) return { ...base, verdict: record.looks > 0 ? record.verdict : "not-enough-data" };
    const facts = await queryBuildFacts(store, { ...record, guardMs, warmUpMs, beforeMs, afterMs, cellMs });
    const report = compareBuilds(facts, looks.length);
    const verdict = verdictOf(report);
    // A service that went quiet offers less to compare each time: keep the verdict from when it was busy.
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

function isSameBuild(record: DeploymentRecord, one: Pick<FoundDeployment, "build" | "version">): boolean {
  return one.build === null ? record.build === null && record.version === one.version : record.build === one.build;
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
  };
}

async function lastVersion(store: ColonyStore, service: string): Promise<string | null | undefined> {
  return (await listDeployments(store, { service, limit: 1 }))[0]?.version;
}

function eventOf(record: DeploymentRecord): { kind: string; atMs: number; message: string; details: Record<string, unknown> } {
  const { id, service, foundBy, build, previousBuild, version, previousVersion, note, startedMs } = record;
  const marked = note === "" ? "" : ` (${note})`;
  return {
    kind: "deployment",
    atMs: startedMs,
    message: `${service} was deployed: ${whatWasDeployed(record)}${marked}`,
    details: { service, deployment: id, foundBy, build, previousBuild, version, previousVersion, note },
  };
}

function verdictEvents(before: DeploymentRecord, after: DeploymentRecord, nowMs: number): ReturnType<typeof eventOf>[] {
  const { service, id } = after;
  const details = { service, deployment: id, before: before.verdict, after: after.verdict };
  if (after.verdict === "regression" && before.verdict !== "regression") {
    const { reason } = deploymentOf(after);
    return [
      { kind: "deployment-regression", atMs: nowMs, message: `${service} is worse since ${whatWasDeployed(after)}: ${reason}`, details },
    ];
  }
  if (before.verdict === "regression" && after.verdict !== "regression") {
    const message = `${service} is not worse since ${whatWasDeployed(after)} after all: later data shows no regression`;
    return [{ kind: "deployment-recovered", atMs: nowMs, message, details }];
  }
  return [];
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
  };
}
