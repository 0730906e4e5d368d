/**
 * Tracks which builds services run and where, and detects new ones (deployments). Uses the time of the data, not of its arrival.
 * No I/O; the caller stores the changes.
 */

import type { AgentScan, BuildPlace, BuildReading, BuildSighting, DeploymentPlace, KnownBuild } from "../../store/queries/index.ts";

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
}

export interface KnownBuildsOptions {
  known: readonly KnownBuild[];
  nowMs: number;
  /** An agent's clock minus the colony's; null or 0 when unknown. */
  clockDifferenceMs?: (agentId: string) => number | null;
}

/** A version without spans for this long, while the service sends others, has stopped. Long, because spans may be rare. */
const spanGoneMs = 180_000;
/** After this silence of an agent its host may be gone, so its builds no longer count as running until it returns. */
const offlineMs = 600_000;
/** Assumed bound of clock differences between agents. */
const clockMs = 180_000;
/** Smaller clock differences are network delay. */
const leastDifferenceMs = 2_000;
/** Versions that a service's first spans carry within this time existed before. */
const firstSpansMs = 60_000;
/** Two builds with the same start at one agent are one process whose build was derived differently. */
const sameStartMs = 1_500;
/** How often the last-seen time of a running build is stored. */
const writtenMs = 600_000;
/** Builds kept per service; beyond it, the one that stopped longest ago is evicted. */
const buildsMax = 50;

type BuildKey = Pick<KnownBuild, "service" | "foundBy" | "build" | "version">;

interface Group extends BuildKey {
  sightings: BuildSighting[];
  /** By the colony's clock. */
  startedMs: number;
  firstMs: number;
}

export class KnownBuilds {
  /** Builds by service and origin. */
  readonly #known = new Map<string, KnownBuild[]>();
  readonly #writtenMs = new Map<KnownBuild, number>();
  readonly #scans = new Map<string, AgentScan>();
  readonly #openedMs: number;
  readonly #differenceMs: (agentId: string) => number;

  constructor({ known, nowMs, clockDifferenceMs }: KnownBuildsOptions) {
    this.#openedMs = nowMs;
    this.#differenceMs = (agentId) => {
      const ms = clockDifferenceMs?.(agentId) ?? 0;
      return Math.abs(ms) < leastDifferenceMs ? 0 : ms;
    };
    for (const build of known) this.#of(build).push({ ...build, places: build.places.map((place) => ({ ...place })) });
  }

  /** Processes rows since the last reading. Idempotent. */
  observe({ sightings, scans }: Pick<BuildReading, "sightings" | "scans">, nowMs: number): BuildNews {
    const news: BuildNews = { builds: [], found: [] };
    for (const scan of scans) {
      const known = this.#scans.get(scan.agentId);
      if (!known || scan.lastMs >= known.lastMs) this.#scans.set(scan.agentId, scan);
      else known.storedMs = Math.max(known.storedMs, scan.storedMs);
    }
    const groups = this.#groupsOf(sightings, nowMs);
    const firstMs = this.#firstTimes(groups);
    for (const group of groups) this.#take(group, firstMs.get(keyOf(group)) ?? group.firstMs, nowMs, news);
    for (const builds of this.#known.values()) for (const build of builds) this.#refresh(build, nowMs, news);
    return news;
  }

  /** Current builds of a service. */
  buildsOf(service: string, foundBy: KnownBuild["foundBy"]): readonly KnownBuild[] {
    return this.#known.get(keyOf({ service, foundBy })) ?? [];
  }

  /** Whether a build still runs at an agent, as far as the agent's newest scan shows. */
  isAt(build: KnownBuild, place: BuildPlace, nowMs: number): boolean {
    if (build.foundBy === "span") return this.#newestSpanMs(build) - this.#colonyMs(place.agentId, place.lastMs) <= spanGoneMs;
    const scan = this.#scans.get(place.agentId);
    if (nowMs - Math.max(scan?.storedMs ?? 0, this.#openedMs) > offlineMs) return false;
    // Until the first scan after a start of the colony, use the stored state.
    return scan === undefined ? build.isRunning : place.lastMs >= scan.lastMs;
  }

  /** Converts a time of an agent's clock to the colony's. */
  #colonyMs(agentId: string, ms: number): number {
    return ms - this.#differenceMs(agentId);
  }

  #of(build: Pick<KnownBuild, "service" | "foundBy">): KnownBuild[] {
    const key = keyOf(build);
    const builds = this.#known.get(key) ?? [];
    this.#known.set(key, builds);
    return builds;
  }

  #newestSpanMs(build: KnownBuild): number {
    const places = this.#of(build).flatMap((one) => one.places);
    return Math.max(...places.map(({ agentId, lastMs }) => this.#colonyMs(agentId, lastMs)));
  }

  #groupsOf(sightings: readonly BuildSighting[], nowMs: number): Group[] {
    const groups = new Map<string, Group>();
    for (const sighting of sightings) {
      const { service, foundBy, build, version, agentId } = sighting;
      const key = JSON.stringify([service, foundBy, build, version]);
      const group = groups.get(key) ?? { service, foundBy, build, version, sightings: [], startedMs: nowMs, firstMs: nowMs };
      groups.set(key, group);
      group.sightings.push(sighting);
      // Nothing starts in the future, whatever a clock says.
      group.startedMs = Math.min(group.startedMs, this.#colonyMs(agentId, sighting.startedMs));
      group.firstMs = Math.min(group.firstMs, this.#colonyMs(agentId, sighting.firstMs));
    }
    return [...groups.values()].sort((a, b) => a.startedMs - b.startedMs);
  }

  /** Since when each service of a reading has been observed. */
  #firstTimes(groups: readonly Group[]): Map<string, number> {
    const times = new Map<string, number>();
    for (const group of groups) {
      const key = keyOf(group);
      const known = this.#of(group);
      const first = known.length > 0 ? Math.min(...known.map(({ firstSeenMs }) => firstSeenMs)) : group.firstMs;
      times.set(key, Math.min(times.get(key) ?? first, first));
    }
    return times;
  }

  #take(group: Group, serviceFirstMs: number, nowMs: number, news: BuildNews): void {
    const builds = this.#of(group);
    const known = builds.find(({ build, version }) => build === group.build && version === group.version);
    const isNews = this.#isDeployment(group, known, builds, serviceFirstMs);
    const entry: KnownBuild = known ?? {
      service: group.service,
      foundBy: group.foundBy,
      build: group.build,
      version: group.version,
      firstSeenMs: serviceFirstMs,
      lastSeenMs: group.firstMs,
      isRunning: false,
      places: [],
    };
    // A returning build counts from its return; an initial one as long as the service.
    if (isNews) entry.firstSeenMs = group.startedMs;
    for (const sighting of group.sightings) this.#arrive(entry, sighting, isNews);
    if (!known) builds.push(entry);
    if (isNews) news.found.push(this.#foundOf(group, entry, builds, nowMs));
    if (builds.length > buildsMax) {
      const oldest = builds.filter((one) => !one.isRunning && one !== entry).sort((a, b) => a.lastSeenMs - b.lastSeenMs)[0] ?? builds[0];
      if (oldest) builds.splice(builds.indexOf(oldest), 1);
    }
  }

  #arrive(build: KnownBuild, { agentId, startedMs, lastMs, instances }: BuildSighting, isNews: boolean): void {
    const place = build.places.find((one) => one.agentId === agentId);
    build.lastSeenMs = Math.max(build.lastSeenMs, this.#colonyMs(agentId, lastMs));
    if (!place) build.places.push({ agentId, startedMs, lastMs, instances });
    else {
      const isReturn = isNews || (build.foundBy === "process" && startedMs > place.lastMs);
      place.startedMs = isReturn ? startedMs : Math.min(place.startedMs, startedMs);
      if (lastMs >= place.lastMs) place.instances = instances;
      place.lastMs = Math.max(place.lastMs, lastMs);
    }
  }

  /**
   * Not deployments: builds whose processes started before the service was first observed (variants), builds that kept running or
   * restarted, and processes whose build was derived differently. A build that returns after another one is a rollback.
   */
  #isDeployment(group: Group, known: KnownBuild | undefined, builds: readonly KnownBuild[], serviceFirstMs: number): boolean {
    const others = builds.filter((build) => build !== known);
    if (others.length === 0 || known?.isRunning) return false;
    if (known) {
      const restMs = group.foundBy === "span" ? spanGoneMs : 0;
      return group.startedMs > known.lastSeenMs + restMs && others.some(({ firstSeenMs }) => firstSeenMs > known.firstSeenMs);
    }
    if (group.foundBy === "span") {
      const isFirst = others.every(({ isRunning }) => !isRunning);
      return group.startedMs > serviceFirstMs + (isFirst ? firstSpansMs : 0);
    }
    const isReread = group.sightings.some(({ agentId, startedMs }) =>
      others.some(({ places }) => places.some((one) => one.agentId === agentId && Math.abs(one.startedMs - startedMs) <= sameStartMs)),
    );
    if (isReread) return false;
    const isKnownHere = group.sightings.some(({ agentId }) => others.some(({ places }) => places.some((one) => one.agentId === agentId)));
    // Clocks of different agents may differ.
    return group.startedMs > serviceFirstMs + (isKnownHere ? 0 : clockMs);
  }

  #foundOf(group: Group, entry: KnownBuild, builds: readonly KnownBuild[], nowMs: number): FoundDeployment {
    const previous = this.previousOf(entry, builds, nowMs);
    return {
      service: group.service,
      foundBy: group.build !== "" && previous?.build !== group.build ? "build" : "version",
      startedMs: group.startedMs,
      build: group.build || null,
      previousBuild: previous?.build || null,
      version: group.version || null,
      previousVersion: previous?.version || null,
      places: placesOf(entry),
    };
  }

  /** The replaced build: preferably one that stopped on the same agent, else the newest earlier one. */
  previousOf(entry: KnownBuild, builds: readonly KnownBuild[], nowMs: number): KnownBuild | undefined {
    const hosts = new Set(entry.places.map(({ agentId }) => agentId));
    const rank = (build: KnownBuild): number[] => [
      Number(
        build.places.some(
          (place) => hosts.has(place.agentId) && !this.isAt(build, place, nowMs) && place.lastMs >= entry.firstSeenMs - clockMs,
        ),
      ),
      Number(build.lastSeenMs >= entry.firstSeenMs - clockMs),
      build.firstSeenMs,
      build.lastSeenMs,
    ];
    return builds
      .filter((build) => build !== entry && build.firstSeenMs <= entry.firstSeenMs)
      .map((build) => ({ build, order: rank(build) }))
      .sort((a, b) => compareRanks(b.order, a.order))[0]?.build;
  }

  #refresh(build: KnownBuild, nowMs: number, news: BuildNews): void {
    const isRunning = build.places.some((place) => this.isAt(build, place, nowMs));
    const isChanged = isRunning !== build.isRunning || !this.#writtenMs.has(build);
    build.isRunning = isRunning;
    if (!isChanged && (!isRunning || nowMs - (this.#writtenMs.get(build) ?? nowMs) < writtenMs)) return;
    this.#writtenMs.set(build, nowMs);
    news.builds.push({ ...build, places: build.places.map((place) => ({ ...place })) });
  }
}

/** Where and when a build appeared, by the agents' clocks. */
export function placesOf({ places }: KnownBuild): DeploymentPlace[] {
  return places.map(({ agentId, startedMs }) => ({ agentId, atMs: startedMs }));
}

function compareRanks(a: readonly number[], b: readonly number[]): number {
  for (const [index, value] of a.entries()) if (value !== (b[index] ?? 0)) return value - (b[index] ?? 0);
  return 0;
}

function keyOf({ service, foundBy }: Pick<KnownBuild, "service" | "foundBy">): string {
  return `${foundBy} ${service}`;
}
