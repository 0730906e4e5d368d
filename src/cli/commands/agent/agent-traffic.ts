import { escapeText } from "../../../base/escape-text.ts";
import { formatBytes } from "../../../base/units.ts";
import type { AgentTrafficStatus } from "../../../tools/index.ts";
import type { Style, StyleName } from "../../output/style.ts";
import { number, percent, plural } from "../../output/values.ts";

const stateStyles: Record<AgentTrafficStatus["state"], StyleName> = { on: "green", starting: "yellow", off: "yellow" };
const hookTexts: Record<AgentTrafficStatus["hooks"], string> = {
  sockets: "socket tracepoints",
  syscalls: "system calls (slower than socket tracepoints)",
  off: "",
};

const scopeTexts: Record<NonNullable<AgentTrafficStatus["scope"]>, string> = {
  host: "scope: whole host",
  "pid-namespace":
    "scope: own pid namespace, requests of other containers are not seen; fix: hostPID: true (Kubernetes) or --pid=host (Docker)",
};

/** The request lines of `coral agent status`: attached hooks, their cost and their losses. */
export function trafficLines(traffic: AgentTrafficStatus, style: Style, wide: boolean): string[] {
  const { state, hooks, scope, reason, fix, cost, step, tls, losses, restarts, lastEnd } = traffic;
  const facts = [
    hookTexts[hooks],
    step > 0 ? style("yellow", `less detail (step ${step})`) : "",
    cost === null ? "" : `${number(cost.requestsPerSecond)} requests/s`,
    restarts > 0 ? style("yellow", `${plural(restarts, "restart")}${lastEnd === null ? "" : `, last: ${escapeText(lastEnd)}`}`) : "",
  ].filter((fact) => fact !== "");
  const lines = [`  requests   ${[style(stateStyles[state] ?? "yellow", state), ...facts].join(", ")}`];
  if (scope !== undefined && state !== "off") lines.push(`             ${scopeTexts[scope]}`);
  if (reason !== null) lines.push(`             ${style("yellow", escapeText(reason))}`);
  if (fix !== null) lines.push(`             fix: ${escapeText(fix)}`);
  if (cost !== null) {
    const kernel = cost.bpfCpuRatio === null ? "" : `kernel programs ${percent(cost.bpfCpuRatio)} of a core, `;
    const memory = `${formatBytes(cost.processRssBytes)} memory, ${formatBytes(cost.mapBytes)} kernel tables`;
    lines.push(`             ${kernel}traffic process cpu ${percent(cost.processCpuRatio)} of a core, ${memory}`);
  }
  if (tls.length > 0) lines.push(...tlsLines(tls, style, wide));
  if (losses.length > 0)
    lines.push(`             lost since start: ${losses.map(({ loss, count }) => `${number(count)} ${escapeText(loss)}`).join(", ")}`);
  return lines;
}

/** Summarizes probed TLS libraries; lists up to three that could not be probed, all of them with -o wide. */
function tlsLines(tls: AgentTrafficStatus["tls"], style: Style, wide: boolean): string[] {
  const wrong = tls.filter((file) => file.problem !== null);
  // A process that uses several TLS libraries counts once per file.
  const processes = tls.reduce((sum, file) => sum + (file.problem === null ? file.processes : 0), 0);
  const lines = [
    `             TLS read in ${plural(tls.length - wrong.length, "file")} of ${plural(processes, "process", "processes")}${wrong.length > 0 ? `, ${plural(wrong.length, "file")} not readable` : ""}`,
  ];
  for (const { path, library, processes: users, problem } of wide ? tls : wrong.slice(0, 3)) {
    const what = problem === null ? `${library}, ${plural(users, "process", "processes")}` : style("yellow", escapeText(problem));
    lines.push(`               ${escapeText(path)}: ${what}`);
  }
  return lines;
}
