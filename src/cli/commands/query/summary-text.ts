/** Formats health and findings for tables and pages. */

import type { ServiceSummary, SummaryBaseline, SummaryFinding, SummaryHealth } from "../../../tools/index.ts";
import type { StyleName } from "../../output/style.ts";
import type { Cell, Column } from "../../output/table.ts";
import { rate } from "../../output/values.ts";
import { errorCell, latencyColumn } from "./red-text.ts";

const healthStyles: Record<SummaryHealth, StyleName> = { critical: "red", degraded: "yellow", unknown: "dim", ok: "green" };
export const findingStyles: Record<SummaryFinding["severity"], StyleName> = { critical: "red", warning: "yellow", info: "cyan" };

export function healthStyle(health: SummaryHealth): StyleName {
  return healthStyles[health];
}

function healthCell(health: SummaryHealth): Cell {
  return { text: health, style: healthStyles[health] };
}

/** The worst finding, with a cause if known; for a healthy service only notable information. */
function whyText({ findings, health }: ServiceSummary): string {
  // Skip host findings for a healthy service, or every service on that host would show them.
  const first = findings.find(({ severity, kind }) => severity !== "info" || kind === "context");
  if (first) {
    const cause = first.kind === "symptom" && findings.find(({ severity, kind }) => severity !== "info" && kind === "cause");
    return cause ? `${first.message}; ${cause.message}` : first.message;
  }
  return health === "unknown" ? "no signals received" : "";
}

/** `+58%`, `−20%`, `3.1×`; empty without a baseline or a notable difference. */
export function changeText(now: number | null, before: number | null | undefined): string {
  if (now === null || before === null || before === undefined || before <= 0) return "";
  const times = now / before;
  if (times >= 0.9 && times <= 1.1) return "";
  if (times >= 3) return `${times.toFixed(times < 10 ? 1 : 0)}×`;
  const percent = Math.round((times - 1) * 100);
  return percent < 0 ? `−${-percent}%` : `+${percent}%`;
}

/** Change of p95: yellow above twice the baseline, green below half. Smaller changes are common and stay plain. */
export function slowCell(now: number | null, before: SummaryBaseline): Cell {
  const text = changeText(now, before?.p95Us);
  if (text === "" || now === null || !before?.p95Us) return text;
  const times = now / before.p95Us;
  return times > 2 ? { text, style: "yellow" } : times < 0.5 ? { text, style: "green" } : text;
}

/** Columns for the list of services and for CSV. */
export const summaryColumns: readonly Column<ServiceSummary>[] = [
  { title: "SERVICE", key: "service", cell: (row) => row.service },
  { title: "HEALTH", key: "health", cell: ({ health }) => healthCell(health) },
  {
    title: "REQ/S",
    key: "perSecond",
    align: "right",
    // Null is not zero: hooks may be off on its hosts.
    cell: ({ requests }) => (requests === null ? null : rate(requests.perSecond)),
    raw: ({ requests }) => requests?.perSecond,
  },
  {
    title: "ERRORS",
    key: "errorRatio",
    align: "right",
    cell: ({ requests }) => (requests === null || requests.requests === 0 ? null : errorCell(requests.errorRatio)),
    raw: ({ requests }) => requests?.errorRatio,
  },
  latencyColumn("P95", "p95Us", ({ requests }) => requests?.p95Us ?? null),
  latencyColumn("BEFORE", "before.p95Us", ({ requests }) => requests?.before?.p95Us ?? null),
  latencyColumn("YESTERDAY", "yesterday.p95Us", ({ requests }) => requests?.yesterday?.p95Us ?? null),
  { title: "WHY", key: "why", cell: whyText, wraps: true },
  { title: "BY", key: "source", cell: ({ requests }) => requests?.source, wide: true },
  { title: "PROCESSES", key: "instances", cell: (row) => row.instances, wide: true },
  { title: "HOSTS", key: "hosts", cell: (row) => row.hosts, wide: true },
];
