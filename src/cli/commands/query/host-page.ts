/** The page of one host: findings first, then one line per resource with its trend. */

import { escapeText } from "../../../base/escape-text.ts";
import { formatBytes, formatDurationMs } from "../../../base/units.ts";
import type { HostMetric } from "../../../model/host.ts";
import type { HostReport } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import { sparkline } from "../../output/sparkline.ts";
import type { Style, StyleName } from "../../output/style.ts";
import { textWidth, truncateText } from "../../output/text-width.ts";
import { number, percent, plural, relative } from "../../output/values.ts";
import { healthStyle } from "../service/health-style.ts";
import { hostTables } from "./host-tables.ts";

const findingStyles: Record<HostReport["findings"][number]["severity"], StyleName> = { critical: "red", warning: "yellow", info: "cyan" };

/** Without a sample, the page is only the headline and a hint. */
export function hostPage(host: HostReport, sinceMs: number, print: Printer, wide: boolean, nowMs: number): string {
  const { style } = print;
  const lines = [headline(host, sinceMs, style, nowMs)];
  for (const finding of host.findings) {
    const name = findingStyles[finding.severity];
    lines.push(`  ${style(name, `${finding.severity}:`)} ${escapeText(finding.message)}`);
  }
  if (host.latest === null) {
    lines.push(print.commands("  no samples in this period; the agent may have just started, see coral agent list"));
    return `${lines.join("\n")}\n`;
  }
  lines.push(...resourceLines(host, host.latest, print));
  lines.push(...hostTables(host, print, wide));
  return `${lines.join("\n")}\n`;
}

function headline(host: HostReport, sinceMs: number, style: Style, nowMs: number): string {
  const facts = [
    escapeText(host.agentId),
    style(healthStyle(host.health), host.health),
    host.latest ? `${host.latest.cpuCount} cores` : "",
    host.latest ? `up ${formatDurationMs(host.latest.uptimeS * 1_000)}` : "",
    host.sampledAt === null ? "" : `sampled ${relative(host.sampledAt, nowMs)}`,
    `last ${formatDurationMs(sinceMs)}`,
  ];
  return `${style("bold", escapeText(host.hostname))}  ${facts.filter((fact) => fact !== "").join(" · ")}`;
}

/** "Used" memory is total minus MemAvailable, so that reclaimable page cache counts as free. */
function resourceLines(host: HostReport, now: NonNullable<HostReport["latest"]>, print: Printer): string[] {
  const { series, totals } = host;
  const { style } = print;
  const memUsed = now.memTotalBytes > 0 ? 1 - now.memAvailableBytes / now.memTotalBytes : null;
  const swap = now.swapTotalBytes > 0 ? ` · swap ${formatBytes(now.swapUsedBytes)} of ${formatBytes(now.swapTotalBytes)}` : "";
  const lines = [
    metricLine(
      "cpu",
      percent(now.cpuBusyRatio),
      series.cpuBusyRatio,
      `user ${percent(now.cpuUserRatio)} · system ${percent(now.cpuSystemRatio)} · iowait ${percent(now.cpuIowaitRatio)} · steal ${percent(now.cpuStealRatio)}`,
      print,
    ),
    metricLine(
      "load",
      number(now.load1m),
      series.load1m,
      `5m ${number(now.load5m)} · 15m ${number(now.load15m)} · ${now.processesRunning} running · ${now.processesBlocked} blocked`,
      print,
      now.cpuCount,
      number,
    ),
    metricLine(
      "memory",
      percent(memUsed),
      series.memUsedRatio,
      `${formatBytes(now.memAvailableBytes)} of ${formatBytes(now.memTotalBytes)} available · cached ${formatBytes(now.memCachedBytes)}${swap}`,
      print,
    ),
  ];
  const pressure = pressureText(now);
  if (pressure !== undefined) {
    const [ratio, course] = worstPressure(now, series);
    lines.push(metricLine("pressure", percent(ratio), course, pressure, print));
  }
  const retransmits = totals.tcpRetransmitRatio === null ? "" : ` · ${percent(totals.tcpRetransmitRatio)} retransmitted`;
  const overflows = totals.tcpListenOverflows > 0 ? ` · ${style("yellow", plural(totals.tcpListenOverflows, "listen overflow"))}` : "";
  const kills = totals.oomKills > 0 ? ` · ${style("red", plural(totals.oomKills, "OOM kill"))}` : "";
  lines.push(`  ${"tcp".padEnd(9)}${now.tcpEstablished} established${retransmits}${overflows}${kills}`);
  return lines;
}

/** `  cpu       23%  ▁▂▃▅█  avg 20% max 91%  user 15% · …`. */
function metricLine(
  label: string,
  now: string | null,
  metric: HostMetric,
  rest: string,
  { style, width }: Printer,
  ceiling = 1,
  format: (value: number | null) => string | null = percent,
): string {
  const head = `  ${label.padEnd(9)}${(now ?? "-").padStart(5)}  `;
  const course = sparkline(metric.points, ceiling);
  const range = metric.avg === null ? "" : `avg ${format(metric.avg)} max ${format(metric.max)}`;
  const parts = [course === "" ? "" : style("cyan", course), range];
  const usedWidth = textWidth([head.trimEnd(), course, range].filter((part) => part !== "").join("  ")) + 2;
  // On a narrow terminal drop the details first: a wrapped line is hard to read.
  const shown = width === undefined ? rest : truncateText(rest, width - usedWidth);
  if (shown.length > 1) parts.push(style("dim", shown));
  return head + parts.filter((part) => part !== "").join("  ");
}

/** PSI "some": share of time in which at least one task waited. "full", in brackets: all tasks waited at once. CPU has no "full" on hosts. */
function pressureText(now: NonNullable<HostReport["latest"]>): string | undefined {
  const { psiCpuSomeRatio, psiMemorySomeRatio, psiMemoryFullRatio, psiIoSomeRatio, psiIoFullRatio } = now;
  // Null means a kernel without PSI (CONFIG_PSI, Linux 4.20), not zero pressure.
  if (psiCpuSomeRatio === null && psiMemorySomeRatio === null && psiIoSomeRatio === null) return undefined;
  const full = (ratio: number | null): string => (ratio === null ? "" : ` (all ${percent(ratio)})`);
  return `waiting for cpu ${percent(psiCpuSomeRatio) ?? "-"} · memory ${percent(psiMemorySomeRatio) ?? "-"}${full(psiMemoryFullRatio)} · io ${percent(psiIoSomeRatio) ?? "-"}${full(psiIoFullRatio)}`;
}

/** The resource with the highest pressure, with its trend. */
function worstPressure(now: NonNullable<HostReport["latest"]>, series: HostReport["series"]): [number, HostMetric] {
  const all: [number, HostMetric][] = [
    [now.psiCpuSomeRatio ?? 0, series.psiCpuSomeRatio],
    [now.psiMemorySomeRatio ?? 0, series.psiMemorySomeRatio],
    [now.psiIoSomeRatio ?? 0, series.psiIoSomeRatio],
  ];
  return all.reduce((worst, next) => (next[0] > worst[0] ? next : worst));
}
