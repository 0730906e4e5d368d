/** Derives the state of a rollout from where its build and earlier ones run now. No I/O. */

import type { BuildShare, KnownBuild, ServedRequests } from "../../store/queries/index.ts";
import type { DeploymentState } from "../../tools/index.ts";
import type { KnownBuilds } from "./known-builds.ts";

export interface RolloutState {
  state: DeploymentState;
  /** Builds that run side by side, this one first; empty for a single build. */
  shares: BuildShare[];
  /** When the last instance of the old build stopped, or of this one after a rollback. */
  endedMs: number | null;
}

export interface RolloutQuery {
  build: KnownBuild;
  /** The replaced build, as first seen. */
  previous: Pick<KnownBuild, "build" | "version">;
  nowMs: number;
  /** Builds side by side without any progress for this long are variants. */
  variantMs: number;
}

/** Old builds that stopped longer before are not part of the rollout. */
const overlapMs = 180_000;

const spanOverlapMs = 15_000;

/** Null while no build of the service runs, which shows nothing. */
export function rolloutState(builds: KnownBuilds, { build, previous, nowMs, variantMs }: RolloutQuery): RolloutState | null {
  const startedMs = build.firstSeenMs;
  const others = builds.buildsOf(build.service, build.foundBy).filter((one) => one !== build);
  const running = others.filter(({ isRunning }) => isRunning);
  const old = others.filter((one) => one.firstSeenMs <= startedMs && one.lastSeenMs >= startedMs - overlapMs);
  // The last spans of the old version may overlap the first of the new one without running side by side.
  const isBeside = (one: KnownBuild): boolean => one.isRunning && (one.foundBy === "process" || one.lastSeenMs > startedMs + spanOverlapMs);
  const oldRunning = old.filter(isBeside);
  const gone = old.filter((one) => !isBeside(one));
  if (!build.isRunning) {
    const isBack = running.some((one) => one.build === previous.build && one.version === previous.version);
    if (oldRunning.length > 0 || isBack) return { state: "rolled-back", shares: [], endedMs: build.lastSeenMs };
    return running.length > 0 ? { state: "complete", shares: [], endedMs: lastOf(gone) } : null;
  }
  // Variants that ran beside the replaced build all along are not replaced.
  const isStanding = (one: KnownBuild): boolean =>
    gone.some((other) => one.firstSeenMs === other.firstSeenMs || startedMs - Math.max(one.firstSeenMs, other.firstSeenMs) >= variantMs);
  const replaced = oldRunning.filter((one) => !isStanding(one));
  if (replaced.length === 0) return { state: "complete", shares: [], endedMs: lastOf(gone) };
  const shares = [build, ...replaced].map((one) => shareOf(builds, one, nowMs));
  const starts = build.places.map((place) => place.startedMs);
  const ends = replaced.flatMap((one) => one.places.filter((place) => !builds.isAt(one, place, nowMs)).map(({ lastMs }) => lastMs));
  const progressMs = Math.max(startedMs, ...starts, ...ends);
  const seenMs = Math.max(...[build, ...replaced].map(({ lastSeenMs }) => lastSeenMs));
  return { state: seenMs - progressMs >= variantMs ? "variant" : "rolling", shares, endedMs: null };
}

function lastOf(gone: readonly KnownBuild[]): number | null {
  return gone.length === 0 ? null : Math.max(...gone.map(({ lastSeenMs }) => lastSeenMs));
}

function shareOf(builds: KnownBuilds, build: KnownBuild, nowMs: number): BuildShare {
  const places = build.places.filter((place) => builds.isAt(build, place, nowMs));
  return {
    build: build.build || null,
    version: build.version || null,
    // Spans do not show processes.
    instances: build.foundBy === "span" ? 0 : places.reduce((sum, { instances }) => sum + instances, 0),
    agents: places.length,
    requests: null,
  };
}

/** Adds requests: by version where spans carry it, by host where each host runs one build. */
export function withRequests(
  shares: readonly BuildShare[],
  served: readonly ServedRequests[],
  hostsOf: (share: BuildShare) => readonly string[],
): BuildShare[] {
  const sum = (rows: readonly ServedRequests[]): number => rows.reduce((total, { requests }) => total + requests, 0);
  const versions = new Set(shares.map(({ version }) => version));
  const bySpans = served.filter(({ version }) => version !== null && versions.has(version));
  if (versions.size === shares.length && bySpans.length > 0)
    return shares.map((share) => ({ ...share, requests: sum(bySpans.filter(({ version }) => version === share.version)) }));
  const hosts = shares.map(hostsOf);
  const byHooks = served.filter(({ version }) => version === null);
  const isApart = new Set(hosts.flat()).size === hosts.flat().length;
  if (!isApart || byHooks.length === 0) return shares.map((share) => ({ ...share }));
  return shares.map((share, index) => ({ ...share, requests: sum(byHooks.filter(({ agentId }) => hosts[index]?.includes(agentId))) }));
}
