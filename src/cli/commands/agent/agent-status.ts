import { escapeText } from "../../../base/escape-text.ts";
import { formatBytes, formatDurationMs } from "../../../base/units.ts";
import type { AgentServiceStatus, AgentStatus } from "../../../tools/index.ts";
import type { Style } from "../../output/style.ts";
import { type Table, tableOf } from "../../output/table.ts";
import { number, percent, plural, relative, shortList } from "../../output/values.ts";
import { askAgent } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { checkStyle, shortBuild } from "../service/service-cells.ts";
import { otlpLines } from "./agent-otlp.ts";
import { agentHead, capabilityLines, colonyLines, platformLines, runtimeLines, storageLines, visibilityLines } from "./agent-page.ts";
import { trafficLines } from "./agent-traffic.ts";

/** `coral agent status`: queries the agent of this host on its own socket, so that it works without a colony. */
export async function run(invocation: Invocation): Promise<void> {
  await showAnswer(invocation, () => askAgent<AgentStatus>(invocation, "/v1/status"), {
    table: (status) => agentTable(status),
    page: (status, wide) => page(status, invocation, wide, Date.now()),
  });
}

function agentTable(status: AgentStatus): Table {
  return tableOf(
    [status],
    [
      { title: "AGENT", key: "agentId", cell: (row) => row.agentId },
      { title: "HOST", key: "hostname", cell: (row) => row.hostname },
      { title: "STATE", key: "state", cell: (row) => row.colony.state },
      { title: "RUNTIME", key: "runtimeType", cell: (row) => row.runtime?.runtimeType },
      { title: "MODE", key: "sidecarMode", cell: (row) => row.runtime?.sidecarMode },
      { title: "COLONY", key: "colonyId", cell: (row) => row.colony.id },
      { title: "ENDPOINT", key: "endpoint", cell: (row) => row.colony.endpoint },
      { title: "PID", key: "pid", cell: (row) => row.pid },
      { title: "VERSION", key: "version", cell: (row) => row.version },
      { title: "STARTED", key: "startedAt", cell: (row) => row.startedAt },
      { title: "STORE", key: "fileBytes", cell: (row) => row.store.fileBytes },
      { title: "RSS", key: "rssBytes", cell: (row) => row.process.rssBytes },
      { title: "CPU", key: "cpuRatio", cell: (row) => row.process.cpuRatio },
      { title: "SERVICES", key: "services", cell: (row) => row.services.total },
    ],
  );
}

/** Sections from the general to the particular; losses and notes before the list of services, which may be long. */
function page(status: AgentStatus, { print }: Invocation, wide: boolean, nowMs: number): string {
  const { style } = print;
  const lines = [
    ...agentHead(status, style),
    ...platformLines(status, style),
    ...runtimeLines(status, style, wide),
    ...capabilityLines(status, style),
    ...visibilityLines(status, style),
    ...colonyLines(status, style, nowMs),
    ...storageLines(status, style, wide, nowMs),
    ...watchingLines(status, style, wide, nowMs),
  ];
  for (const loss of status.losses)
    lines.push(
      `  ${style("yellow", "!")} ${loss.rows} ${loss.rows === 1 ? "row" : "rows"} of ${escapeText(loss.signal)} lost: ${escapeText(loss.reason)}`,
    );
  for (const note of status.notes) lines.push(`  ${style("yellow", "!")} ${escapeText(note)}`);
  lines.push(...serviceLines(status.services, style, wide));
  return `${lines.join("\n")}\n`;
}

/** Host figures and the agent's own resource use. */
function watchingLines(status: AgentStatus, style: Style, wide: boolean, nowMs: number): string[] {
  const { host } = status;
  const up = formatDurationMs(Math.max(0, nowMs - Date.parse(status.startedAt)));
  const lines = ["", style("bold", "Watching:"), `  process    pid ${status.pid}, up ${up}`];
  if (host) {
    const memory = `memory ${percent(host.memUsedRatio)} of ${formatBytes(host.memTotalBytes)}`;
    lines.push(
      `  host       cpu ${percent(host.cpuBusyRatio)} of ${host.cpuCount} cores, ${memory}, load ${number(host.load1m)}, ${relative(host.sampledAt, nowMs)}`,
    );
  }
  lines.push(`  services   ${servicesSummary(status.services)}`);
  lines.push(`  cost       cpu ${percent(status.process.cpuRatio)} of a core, ${formatBytes(status.process.rssBytes)} memory`);
  if (status.traffic) lines.push(...trafficLines(status.traffic, style, wide));
  if (status.otlp) lines.push(...otlpLines(status.otlp, style));
  return lines;
}

/** Discovered services shown without -o wide; managed ones are always shown. */
const maxDiscovered = 20;
/** Ports per service without -o wide. */
const portsShown = 8;

function servicesSummary({ total, items }: AgentStatus["services"]): string {
  const managed = items.filter((service) => service.status === "managed").length;
  return total === 0 ? "none found yet" : `${total}, ${managed} of them managed`;
}

/** One block per service, managed ones first. */
function serviceLines({ total, items }: AgentStatus["services"], style: Style, wide: boolean): string[] {
  if (items.length === 0) return [];
  const managed = items.filter((service) => service.status === "managed");
  const groups = byName(items.filter((service) => service.status !== "managed"));
  const shown = [...managed.map((service) => [service]), ...(wide ? groups : groups.slice(0, maxDiscovered))];
  const lines = ["", style("bold", "Services:"), ...shown.flatMap((ports) => serviceBlock(ports, style, wide))];
  const hidden = total - shown.flat().length;
  if (hidden > 0)
    lines.push(style("dim", `  … and ${plural(hidden, "more service")}; ${wide ? "coral network services has" : "-o wide shows"} them`));
  return lines;
}

/** Groups the ports of a service into one block. */
function byName(services: readonly AgentServiceStatus[]): AgentServiceStatus[][] {
  const groups = new Map<string, AgentServiceStatus[]>();
  for (const service of services) groups.set(service.name, [...(groups.get(service.name) ?? []), service]);
  return [...groups.values()];
}

/** Facts of the first port stand for the service; only the port numbers and processes of the others are added. */
function serviceBlock(ports: readonly AgentServiceStatus[], style: Style, wide: boolean): string[] {
  const [service] = ports;
  if (service === undefined) return [];
  const pids = new Set(ports.map((port) => port.pid)).size;
  const processes = Math.max(pids, ...ports.map((port) => port.instances));
  const more = processes > 1 ? ` (and ${plural(processes - 1, "more process", "more processes")})` : "";
  const pid = service.instances === 0 ? "no process found" : `${service.pid ?? "not readable"}${more}`;
  const numbers = ports.flatMap(({ port, protocol }) => (port === null ? [] : [`${port}${protocol === "udp" ? "/udp" : ""}`]));
  const port = numbers.length === 0 ? "none" : shortList(numbers, wide ? numbers.length : portsShown, ", ");
  const build = wide ? service.build : shortBuild(service.build);
  const facts: [string, string | null][] = [
    ["Port", port],
    ["PID", pid],
    ["Binary", service.exe],
    ["Build", build],
  ];
  const lines = facts.flatMap(([name, text]) => (text === null ? [] : [`    ${`${name}:`.padEnd(13)} ${escapeText(text)}`]));
  const sdk = service.sdk === undefined ? [] : [`    ${"SDK:".padEnd(13)} ${service.sdk === null ? "none seen" : escapeText(service.sdk)}`];
  return [`  ${style("bold", escapeText(service.name))}`, ...lines, `    ${"Status:".padEnd(13)} ${statusText(service, style)}`, ...sdk];
}

/** `healthy`, `unhealthy (connection refused)`; the discovery method for services without a check. */
function statusText({ check, method, confidence, status }: AgentServiceStatus, style: Style): string {
  if (check === null) return `${status} by ${escapeText(method)}, name ${confidence >= 1 ? "certain" : `confidence ${confidence}`}`;
  const detail = check.state === "healthy" ? "" : ` (${escapeText(check.detail)})`;
  return `${style(checkStyle(check.state), check.state)}${detail}`;
}
