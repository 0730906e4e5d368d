/** Which builds services run, and which of them are new: a deployment. Pure but for what it remembers. */

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
  /** To be stored. */
  builds: KnownBuild[];
  found: FoundDeployment[];
  /** What runs now, by service: where a deployment has arrived since. */
  arrived: Pick<FoundDeployment, "service" | "build" | "version" | "places">[];
}

/** A build that was not seen for so long does not run any more. Processes are those of two scans already; spans may be rare. */
const goneMs: Record<KnownBuild["foundBy"], number> = { process: 60_000, span: 180_000 };
/** Clocks of agents may differ from the colony's by this. */
const clockMs = 180_000;
/** When what runs was last seen is written so often. */
const writtenMs = 600_000;
/** Builds remembered of one service; of more, those go that have not run for the longest. */
const buildsMax = 50;

interface Group extends Pick<KnownBuild, "service" | "foundBy" | "build" | "version"> {
  places: DeploymentPlace[];
  startedMs: number;
}

export class KnownBuilds {
  /** By service and origin. */
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

  /** Takes what the newest scans or spans show. Only origins that were looked at may be given: what is missing of them counts as gone. */
  observe(running: readonly RunningBuild[], origins: readonly KnownBuild["foundBy"][], nowMs: number): BuildNews {
    const news: BuildNews = { builds: [], found: [], arrived: [] };
    const isNewService = new Set<string>();
    for (const group of groupsOf(running)) {
      const builds = this.#of(group);
      // All builds that a service shows at first were there before anybody looked.
      if (builds.length === 0) isNewService.add(keyOf(group));
      const known = builds.find(({ build, version }) => build === group.build && version === group.version);
      const isNews = isDeployment(group, known, builds, isNewService.has(keyOf(group)));
      if (isNews) news.found.push(foundOf(group, builds));
      else if (known?.isRunning) {
        news.arrived.push({ service: group.service, build: group.build || null, version: group.version || null, places: group.places });
      }
      // Since when it is the one that was deployed.
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
    // A colony that was away has seen nobody.
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
 * A build that runs beside others since before the service was known is one of its faces, not a deployment; so is one that was here all the
 * time, or is here again. One that comes back after another was deployed is: a way back.
 */
function isDeployment(group: Group, known: KnownBuild | undefined, builds: readonly KnownBuild[], isNewService: boolean): boolean {
  if (isNewService || known?.isRunning) return false;
  const others = builds.filter((build) => build !== known);
  if (others.length === 0) return false;
  const firstKnownMs = Math.min(...builds.map(({ firstSeenMs }) => firstSeenMs));
  // Spans tell when they were first seen within a short time, which is after the service's first span in any case.
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
