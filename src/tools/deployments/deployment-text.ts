/** Text for deployments, shared by events, summaries and the terminal. */

import { formatBytes, formatDurationMs } from "../../base/units.ts";
import { microseconds, share } from "../health/figures.ts";
import type { BuildChange, BuildReport, Deployment, Verdict } from "../schemas/deployment.ts";
import { redSubject } from "../traffic/red-findings.ts";

/** `GET /users/{id} p95 12 ms → 19 ms (+58%)`. */
export function changeText({ metric, subject, unit, before, after }: BuildChange): string {
  const what = {
    p50: "p50",
    p95: "p95",
    errors: "failed",
    rate: "rate",
    cpu: unit === "cpu-us" ? "CPU per request" : "CPU",
    memory: "memory",
  }[metric];
  const change = unit === "ratio" || before <= 0 ? "" : ` (${percentChange(after / before)})`;
  return `${subject === "" ? "" : `${subject} `}${what} ${valueText(before, unit)} → ${valueText(after, unit)}${change}`;
}

/** `GET /users/{id}`; `calls GET /prices` for requests that the service sends. */
export function routeSubject({ role, method, route }: { role: "server" | "client"; method: string; route: string }): string {
  const subject = redSubject({ role, method, route, peer: null, status: null });
  return role === "client" ? `calls ${subject}` : subject;
}

/** `+58%`; `3.1×` from a factor of three. */
export function percentChange(times: number): string {
  if (times >= 3) return `${times.toFixed(times < 10 ? 1 : 0)}×`;
  const percent = Math.round((times - 1) * 100);
  return `${percent >= 0 ? "+" : ""}${percent}%`;
}

export function valueText(value: number, unit: BuildChange["unit"]): string {
  switch (unit) {
    case "us":
      return microseconds(value);
    case "cpu-us":
      return microseconds(value);
    case "ratio":
      return share(value);
    case "per-second":
      return `${value.toFixed(value < 10 ? 1 : 0)}/s`;
    case "cores":
      return `${value.toFixed(2)} cores`;
    case "bytes":
      return formatBytes(value);
  }
}

/** The reason for the verdict. */
export function reasonOf(verdict: Verdict, report: BuildReport | null, isComplete: boolean): string {
  if (report === null) return isComplete ? "nothing was compared" : "the first comparison is pending";
  const of = (outcome: BuildChange["outcome"]): BuildChange[] => report.changes.filter((change) => change.outcome === outcome);
  switch (verdict) {
    case "regression":
      return listed(of("worse"));
    case "improvement":
      return listed(of("better"));
    case "no-change":
      return `${report.comparisons} comparisons over ${formatDurationMs(report.afterMs)} found no significant change`;
    case "not-enough-data":
      if (report.source === "none") return "no requests were seen, neither by hooks nor in spans";
      return `too few requests or too little time to compare: ${count(report.requestsBefore)} before, ${count(report.requestsAfter)} after`;
  }
}

function listed(changes: readonly BuildChange[]): string {
  const shown = changes.slice(0, 3).map(changeText).join("; ");
  return changes.length > 3 ? `${shown}; and ${changes.length - 3} more` : shown;
}

function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

/** `1.4.2` or `build 3f2a…`, with the build that it replaced or still runs beside. */
export function whatWasDeployed(
  one: Pick<Deployment, "build" | "previousBuild" | "version" | "previousVersion"> & { state?: string },
): string {
  const name = (version: string | null, build: string | null): string | null =>
    version ?? (build === null ? null : `build ${build.slice(0, 12)}`);
  const isSameVersion = one.version !== null && one.version === one.previousVersion;
  const now = isSameVersion ? name(null, one.build) : name(one.version, one.build);
  const before = isSameVersion ? name(null, one.previousBuild) : name(one.previousVersion, one.previousBuild);
  if (now === null) return "a new build";
  return before === null || before === now
    ? now
    : `${now} ${one.state === "rolling" || one.state === "variant" ? "beside" : "instead of"} ${before}`;
}

type Rollout = Pick<Deployment, "build" | "previousBuild" | "version" | "previousVersion" | "state" | "shares">;

/** `1.4.2`, `build 3f2a91c07712`, `a new build`. */
export function buildName({ build, version }: { build: string | null; version: string | null }): string {
  return version ?? (build === null ? "a new build" : `build ${build.slice(0, 12)}`);
}

/** For a list of findings: `1.4.2 was deployed 3m ago`, `1.4.2 has been rolling out for 3m (2 of 10 instances)`. */
export function deployedAgo(one: Rollout, ago: string): string {
  const name = buildName(one);
  const [share] = one.shares;
  const instances = one.shares.reduce((sum, { instances: count }) => sum + count, 0);
  const part = share === undefined || instances === 0 ? "" : ` (${share.instances} of ${instances} instances)`;
  switch (one.state) {
    case "complete":
      return `${name} was deployed ${ago} ago`;
    case "rolling":
      return `${name} has been rolling out for ${ago}${part}`;
    case "rolled-back":
      return `${name} was deployed ${ago} ago and rolled back`;
    case "variant":
      return `${name} has run beside the build before it for ${ago}${part}`;
  }
}

/** After a service's name: `was deployed: 1.4.2 instead of 1.4.1`, `is rolling out 1.4.2: on 2 of 10 instances; 1.4.1 on 8`. */
export function deployedText(one: Rollout): string {
  switch (one.state) {
    case "complete":
      return `was deployed: ${whatWasDeployed(one)}`;
    case "rolling":
      return `is rolling out ${newName(one)}: ${sharesText(one)}`;
    case "rolled-back":
      return `was rolled back: ${newName(one)} is gone${one.previousBuild === null && one.previousVersion === null ? "" : `, ${oldName(one)} runs`}`;
    case "variant":
      return `runs builds side by side: ${sharesText(one)}`;
  }
}

/** `1.4.2 on 2 of 10 instances, 20% of requests; 1.4.1 on 8, 80%`. */
export function sharesText(one: Rollout): string {
  const instances = one.shares.reduce((sum, { instances: count }) => sum + count, 0);
  const requests = one.shares.reduce((sum, { requests: count }) => sum + (count ?? 0), 0);
  const isSameVersion = new Set(one.shares.map(({ version }) => version)).size < one.shares.length;
  return one.shares
    .map(({ build, version, instances: count, requests: served }, index) => {
      const where = instances === 0 ? "" : ` on ${count}${index === 0 ? ` of ${instances} instances` : ""}`;
      const part =
        served === null || requests === 0
          ? ""
          : `${where === "" ? " with" : ","} ${share(served / requests)}${index === 0 ? " of requests" : ""}`;
      return `${buildName({ build, version: isSameVersion && build !== null ? null : version })}${where}${part}`;
    })
    .join("; ");
}

function newName({ build, previousBuild, version, previousVersion }: Rollout): string {
  return buildName({ build, version: version === previousVersion && previousBuild !== null && build !== null ? null : version });
}

function oldName({ build, version, previousBuild, previousVersion }: Rollout): string {
  return buildName({
    build: previousBuild,
    version: version === previousVersion && previousBuild !== null && build !== null ? null : previousVersion,
  });
}
