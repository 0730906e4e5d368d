/** Tracks the builds that services run, and detects new ones: deployments. No I/O; the caller stores the changes. */

import type { DeploymentPlace, KnownBuild, RunningBuild } from "../../store/queries/index.ts";

export interface FoundDeployment {
  service: string;
  foundBy: "build" | "version";
  startedMs: number;
  build: string | null;
  previousBuild: string | null;
  version: string | null;
  previousVersion: string | null;
  places: DeploymentPlace[];
}

export interface BuildNews {
  /** Changed builds, to be stored. */
  builds: KnownBuild[];
  found: FoundDeployment[];
  /** Known builds that run now, with the places that a deployment has reached. */
  arrived: Pick<FoundDeployment, "service" | "build" | "version" | "places">[];
}

/** A build unseen for this long has stopped. Processes cover two scans already; spans may be rare. */
const goneMs: Record<KnownBuild["foundBy"], number> = { process: 60_000, span: 180_000 };
/** Assumed bound of clock differences between agents and the colony. */
const clockMs = 180_000;
/** How often the last-seen time of a running build is stored. */
const writtenMs = 600_000;
/** Builds kept per service; beyond it, the one that stopped longest ago is evicted. */
const buildsMax = 50;

interface Group extends Pick<KnownBuild, "service" | "foundBy" | "build" | "version"> {
  places: DeploymentPlace[];
  startedMs: number;
}

export class KnownBuilds {
  /** Builds by service and origin. */
  readonly #known = new Map<string, KnownBuild[]>();
  readonly #writtenMs = new Map<KnownBuild, number>();
  readonly #openedMs: number;

  constructor(known: readonly KnownBuild[], nowMs: number) {
    this.#openedMs = nowMs;
    for (const build of known) {
      const builds = this.#of(build);
      builds.push({ ...build });
    }
  }

  /** Processes the newest scans or spans. `origins` are those that were read: their builds missing from `running` count as stopped. */
  observe(running: readonly RunningBuild[], origins: readonly KnownBuild["foundBy"][], nowMs: number): BuildNews {
    const news: BuildNews = { builds: [], found: [], arrived: [] };
    const isNewService = new Set<string>();
    for (const group of groupsOf(running)) {
      const builds = this.#of(group);
      // All builds of a service seen for the first time existed before observation began.
      if (builds.length === 0) isNewService.add(keyOf(group));
      const known = builds.find(({ build, version }) => build === group.build && version === group.version);
      const isNews = isDeployment(group, known, builds, isNewService.has(keyOf(group)));
      if (isNews) news.found.push(foundOf(group, builds));
      else if (known?.isRunning) {
        news.arrived.push({ service: group.service, build: group.build || null, version: group.version || null, places: group.places });
      }
      // A redeployed build counts from now.
      if (isNews && known) known.firstSeenMs = nowMs;
      this.#seen(group, known, builds, nowMs, news);
    }
    for (const builds of this.#known.values()) for (const build of builds) this.#expire(build, origins, nowMs, news);
    return news;
  }

  #of(build: Pick<KnownBuild, "service" | "foundBy">): KnownBuild[] {
    const key = keyOf(build);
    const builds = this.#known.get(key) ?? [];
    this.#known.set(key, builds);
    return builds;
  }

  #seen(group: Group, known: KnownBuild | undefined, builds: KnownBuild[], nowMs: number, news: BuildNews): void {
    const { service, foundBy, build, version } = group;
    const entry = known ?? { service, foundBy, build, version, firstSeenMs: nowMs, lastSeenMs: nowMs, isRunning: false };
    const isChanged = !entry.isRunning;
    entry.isRunning = true;
    entry.lastSeenMs = nowMs;
    if (!known) builds.push(entry);
    if (builds.length > buildsMax) {
      const oldest = builds.filter((one) => !one.isRunning).sort((a, b) => a.lastSeenMs - b.lastSeenMs)[0] ?? builds[0];
      if (oldest) builds.splice(builds.indexOf(oldest), 1);
    }
    if (!isChanged && nowMs - (this.#writtenMs.get(entry) ?? this.#openedMs) < writtenMs) return;
    this.#writtenMs.set(entry, nowMs);
    news.builds.push({ ...entry });
  }

  #expire(build: KnownBuild, origins: readonly KnownBuild["foundBy"][], nowMs: number, news: BuildNews): void {
    if (!build.isRunning || !origins.includes(build.foundBy)) return;
    // While the colony was down, nothing could be seen.
    if (nowMs - Math.max(build.lastSeenMs, this.#openedMs) < goneMs[build.foundBy]) return;
    build.isRunning = false;
    this.#writtenMs.delete(build);
    news.builds.push({ ...build });
  }
}

function keyOf({ service, foundBy }: Pick<KnownBuild, "service" | "foundBy">): string {
  return `${foundBy} ${service}`;
}

function groupsOf(running: readonly RunningBuild[]): Group[] {
  const groups = new Map<string, Group>();
  for (const { service, foundBy, build, version, agentId, startedMs } of running) {
    const key = JSON.stringify([service, foundBy, build, version]);
    const group = groups.get(key) ?? { service, foundBy, build, version, places: [], startedMs };
    groups.set(key, group);
    group.startedMs = Math.min(group.startedMs, startedMs);
    group.places.push({ agentId, atMs: startedMs });
  }
  return [...groups.values()].sort((a, b) => a.startedMs - b.startedMs);
}

/**
 * A build that has run next to others since before the service was known is a variant, not a deployment; nor is a build that kept running or was
 * restarted. A build that returns after another was deployed is one: a rollback.
 */
function isDeployment(group: Group, known: KnownBuild | undefined, builds: readonly KnownBuild[], isNewService: boolean): boolean {
  if (isNewService || known?.isRunning) return false;
  const others = builds.filter((build) => build !== known);
  if (others.length === 0) return false;
  const firstKnownMs = Math.min(...builds.map(({ firstSeenMs }) => firstSeenMs));
  // Not for spans: their start is the first one in a short range, which is always after the service's first span.
  if (group.startedMs < firstKnownMs - clockMs && group.foundBy === "process") return false;
  return known === undefined || others.some(({ firstSeenMs }) => firstSeenMs > known.firstSeenMs);
}

function foundOf(group: Group, builds: readonly KnownBuild[]): FoundDeployment {
  const previous = builds
    .filter(({ build, version }) => build !== group.build || version !== group.version)
    .sort((a, b) => Number(b.isRunning) - Number(a.isRunning) || b.lastSeenMs - a.lastSeenMs || b.firstSeenMs - a.firstSeenMs)[0];
  return {
    service: group.service,
    foundBy: group.build !== "" && previous?.build !== group.build ? "build" : "version",
    startedMs: group.startedMs,
    build: group.build || null,
    previousBuild: previous?.build || null,
    version: group.version || null,
    previousVersion: previous?.version || null,
    places: group.places,
  };
}
