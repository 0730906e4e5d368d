import type { HostReport } from "../../../tools/index.ts";
import { type Column, tableOf, valueColumn } from "../../output/table.ts";
import { bytes, number, percent } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";
import { healthCell } from "../service/health-style.ts";
import { hostPage } from "./host-page.ts";

/** `coral query host [agent]`: a page per host; one row per host in csv. */
export async function run(invocation: Invocation): Promise<void> {
  const { print } = invocation;
  await showTool(invocation, "coral_query_host", {
    table: (answer) => tableOf(answer.hosts, columns),
    page: (answer, wide) => answer.hosts.map((host) => hostPage(host, answer.sinceMs, print, wide, Date.now())).join("\n"),
  });
}

const columns: readonly Column<HostReport>[] = [
  { title: "HOST", key: "hostname", cell: (host) => host.hostname },
  { title: "AGENT", key: "agentId", cell: (host) => host.agentId },
  valueColumn("HEALTH", "health", (host) => host.health, healthCell),
  { title: "SAMPLED", key: "sampledAt", cell: (host) => host.sampledAt },
  ratioColumn("CPU", "cpuBusyRatio", (host) => host.latest?.cpuBusyRatio),
  ratioColumn("CPU AVG", "cpuBusyRatioAvg", (host) => host.series.cpuBusyRatio.avg),
  ratioColumn("CPU MAX", "cpuBusyRatioMax", (host) => host.series.cpuBusyRatio.max),
  ratioColumn("IOWAIT", "cpuIowaitRatio", (host) => host.latest?.cpuIowaitRatio),
  ratioColumn("STEAL", "cpuStealRatio", (host) => host.latest?.cpuStealRatio),
  valueColumn("LOAD", "load1m", (host) => host.latest?.load1m, number),
  ratioColumn("MEM AVG", "memUsedRatioAvg", (host) => host.series.memUsedRatio.avg),
  ratioColumn("MEM MAX", "memUsedRatioMax", (host) => host.series.memUsedRatio.max),
  valueColumn("MEM TOTAL", "memTotalBytes", (host) => host.latest?.memTotalBytes, bytes),
  valueColumn("SWAP", "swapUsedBytes", (host) => host.latest?.swapUsedBytes, bytes),
  { title: "OOM KILLS", key: "oomKills", cell: (host) => host.totals.oomKills },
  { title: "SAMPLES", key: "samples", cell: (host) => host.totals.samples },
  { title: "FINDINGS", key: "findings", cell: (host) => host.findings.map((finding) => finding.rule).join(",") },
];

function ratioColumn(title: string, key: string, read: (host: HostReport) => number | null | undefined): Column<HostReport> {
  return valueColumn(title, key, read, percent);
}
