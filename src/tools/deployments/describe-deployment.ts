/** Deployments in words, the same for events, summaries and the terminal. */

import { formatBytes, formatDurationMs } from "../../base/units.ts";
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

/** `+58%`; `3.1×` from three times on. */
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

/** `850 µs`, `12.3 ms`, `4.2 s`. */
export function microseconds(us: number): string {
  if (us < 1_000) return `${Math.round(us)} µs`;
  if (us < 1_000_000) return `${(us / 1_000).toFixed(us < 100_000 ? 1 : 0)} ms`;
  return `${(us / 1_000_000).toFixed(1)} s`;
}

/** `0.25%`, `3.1%`, `42%`. */
export function share(ratio: number): string {
  const percent = ratio * 100;
  return `${percent === 0 ? "0" : percent.toFixed(percent < 1 ? 2 : percent < 10 ? 1 : 0)}%`;
}

/** What decided the verdict, in words. */
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

/** `1.4.2` or `build 3f2a…`, with what it replaced. */
export function whatWasDeployed(one: Pick<Deployment, "build" | "previousBuild" | "version" | "previousVersion">): string {
  const name = (version: string | null, build: string | null): string | null =>
    version ?? (build === null ? null : `build ${build.slice(0, 12)}`);
  const isSameVersion = one.version !== null && one.version === one.previousVersion;
  const now = isSameVersion ? name(null, one.build) : name(one.version, one.build);
  const before = isSameVersion ? name(null, one.previousBuild) : name(one.previousVersion, one.previousBuild);
  if (now === null) return "a new build";
  return before === null || before === now ? now : `${now} instead of ${before}`;
}
