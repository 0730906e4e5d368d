import { escapeText } from "../../../base/escape-text.ts";
import { formatBytes, formatDurationMs } from "../../../base/units.ts";
import { type BuildChange, type Deployment, type DeploymentList, sharesText } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import type { StyleName } from "../../output/style.ts";
import { type Column, renderTable, tableOf } from "../../output/table.ts";
import { grouped, latency, localTime, number, percent, rate, shortList } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool, toolInput } from "../../run/show-tool.ts";
import { changeText } from "./summary-text.ts";

/** `coral query deployments [service]`: new builds, and how they compare with the time before. */
export async function run(invocation: Invocation): Promise<void> {
  const { print } = invocation;
  const { since, service } = toolInput(invocation, "coral_query_deployments");
  await showTool(invocation, "coral_query_deployments", {
    table: ({ deployments }) => tableOf(deployments, columns(Date.now())),
    page: (answer, wide) => page(answer, print, wide, service !== undefined),
    empty: `No deployments in the last ${since}; report one that Coral cannot detect with coral deploy mark`,
  });
}

const verdictStyles: Record<Deployment["verdict"], StyleName> = {
  regression: "red",
  improvement: "green",
  "no-change": "dim",
  "not-enough-data": "dim",
};

function columns(nowMs: number): Column<Deployment>[] {
  return [
    { title: "TIME", key: "at", cell: ({ at }) => localTime(at, nowMs), raw: ({ at }) => at },
    { title: "SERVICE", key: "service", cell: (row) => row.service },
    { title: "DEPLOYED", key: "version", cell: deployedText, raw: ({ version, build }) => version ?? build },
    {
      title: "VERDICT",
      key: "verdict",
      cell: ({ verdict, isComplete }) => ({ text: isComplete ? verdict : `${verdict} so far`, style: verdictStyles[verdict] }),
      raw: ({ verdict }) => verdict,
    },
    {
      title: "ROLLOUT",
      key: "state",
      cell: (row) => ({ text: rolloutText(row), ...(row.state === "complete" ? { style: "dim" as const } : {}) }),
      raw: ({ state }) => state,
    },
    { title: "WHY", key: "reason", cell: ({ reason }) => reason },
    { title: "FOUND BY", key: "foundBy", cell: ({ foundBy }) => foundBy.join(","), wide: true },
    { title: "HOSTS", key: "agents", cell: ({ agents }) => agents.length, wide: true },
    { title: "BUILD", key: "build", cell: ({ build }) => build, wide: true },
    { title: "ID", key: "id", cell: ({ id }) => id, wide: true },
  ];
}

/** `complete`, `rolling 2/10`, `rolled back`, `variant 1/4`. */
function rolloutText({ state, shares }: Deployment): string {
  const instances = shares.reduce((sum, share) => sum + share.instances, 0);
  const part = instances === 0 ? "" : ` ${shares[0]?.instances ?? 0}/${instances}`;
  return state === "rolled-back" ? "rolled back" : `${state}${state === "complete" ? "" : part}`;
}

/** `1.4.2 ← 1.4.1`, `3f2a91c0 ← 77aa…`, with the note of a mark. */
function deployedText({ version, previousVersion, build, previousBuild, note }: Deployment): string {
  // Builds with the same version differ only in the build id.
  const isVersion = version !== null && version !== previousVersion;
  const name = isVersion ? version : (build?.slice(0, 8) ?? version ?? "marked");
  const before = isVersion ? (previousVersion ?? previousBuild?.slice(0, 8)) : previousBuild?.slice(0, 8);
  return `${name}${before ? ` ← ${before}` : ""}${note === "" ? "" : ` (${note})`}`;
}

/** A table for all services; for one service, a block per deployment with every change. */
function page({ deployments }: DeploymentList, print: Printer, wide: boolean, isOne: boolean): string {
  const { style, width } = print;
  const nowMs = Date.now();
  if (!isOne) return renderTable(tableOf(deployments, columns(nowMs)), { wide, width: wide ? undefined : width, style });
  return deployments.map((deployment) => onePage(deployment, print, wide, nowMs)).join("\n");
}

/** A deployment in full. While comparisons are pending the verdict reads `… so far`, because a later one may revise it. */
function onePage(deployment: Deployment, { style, width }: Printer, wide: boolean, nowMs: number): string {
  const { service, at, verdict, isComplete, report, agents, foundBy, reason } = deployment;
  const state = isComplete ? verdict : `${verdict} so far`;
  const where = agents.length === 0 ? "" : ` · on ${shortList(agents, 3, ", ")}`;
  const lines = [
    `${style("bold", escapeText(service))}  ${localTime(at, nowMs)} · ${escapeText(deployedText(deployment))} · ${style(verdictStyles[verdict], state)} · detected by ${foundBy.join(" and ")}${escapeText(where)}`,
  ];
  if (deployment.shares.length > 0)
    lines.push(`  ${deployment.state === "variant" ? "permanently side by side" : "rolling out"}: ${escapeText(sharesText(deployment))}`);
  if (report === null || report.changes.length === 0) lines.push(`  ${escapeText(reason)}`);
  if (report !== null) {
    if (report.changes.length > 0)
      lines.push(renderTable(changeTable(report.changes), { wide, width: wide ? undefined : width, style, indent: "  " }).trimEnd());
    lines.push(...newsLines(deployment));
    const many = `${grouped(Math.round(report.requestsBefore))} requests in ${formatDurationMs(report.beforeMs)} before, ${grouped(Math.round(report.requestsAfter))} in ${formatDurationMs(report.afterMs)} after`;
    const few = report.tooFew === 0 ? "" : ` · ${report.tooFew} routes with too few`;
    lines.push(style("dim", `  ${many} · ${report.comparisons} comparisons${few}${report.source === "spans" ? " · from spans" : ""}`));
  }
  return `${lines.join("\n")}\n`;
}

function changeTable(changes: readonly BuildChange[]) {
  const outcomeStyles: Record<BuildChange["outcome"], StyleName> = { worse: "red", better: "green", changed: "cyan" };
  return tableOf(changes, [
    { title: "", key: "outcome", cell: ({ outcome }) => ({ text: outcome, style: outcomeStyles[outcome] }) },
    { title: "ROUTE", key: "subject", cell: ({ subject }) => (subject === "" ? "all" : subject) },
    { title: "METRIC", key: "metric", cell: ({ metric, unit }) => (unit === "cpu-us" ? "cpu per request" : metric) },
    { title: "BEFORE", key: "before", align: "right", cell: ({ before, unit }) => valueText(before, unit) },
    { title: "AFTER", key: "after", align: "right", cell: ({ after, unit }) => valueText(after, unit) },
    {
      title: "CHANGE",
      key: "change",
      align: "right",
      // A factor between two shares misleads: 0.1 % to 0.3 % would read as "three times as bad".
      cell: ({ before, after, unit }) => (unit === "ratio" ? "" : changeText(after, before)),
    },
    { title: "EFFECT", key: "effect", align: "right", cell: ({ effect }) => (effect === null ? null : effect.toFixed(2)) },
    {
      title: "BY CHANCE",
      key: "pValue",
      align: "right",
      // Smaller p-values would suggest precision that the test lacks.
      cell: ({ pValue }) => (pValue < 1e-6 ? "< 10⁻⁶" : pValue < 0.001 ? pValue.toExponential(0) : pValue.toFixed(4)),
    },
  ]);
}

/** Units come from the comparison; a new unit fails to compile here. */
function valueText(value: number, unit: BuildChange["unit"]): string {
  switch (unit) {
    case "us":
    case "cpu-us":
      return latency(value) ?? "";
    case "ratio":
      return percent(value) ?? "";
    case "per-second":
      return `${rate(value)}/s`;
    case "cores":
      return number(value) ?? "";
    case "bytes":
      return formatBytes(value);
  }
}

/** New external calls and new error patterns. They are shown but do not affect the verdict. */
function newsLines({ report }: Deployment): string[] {
  if (report === null) return [];
  return [
    ...(report.newEgress.length === 0 ? [] : [`  new external calls: ${escapeText(shortList(report.newEgress, 5, ", "))}`]),
    ...report.newErrors.slice(0, 5).map(({ template, records }) => `  new error, ${grouped(records)} records: ${escapeText(template)}`),
  ];
}
