import * as z from "zod";
import type { ServiceCpuFact } from "../../model/red.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { agentInput, limitInput, pointsInput, sinceInput } from "../contract/common-inputs.ts";
import { defineTool } from "../contract/define-tool.ts";
import { chooseAgents } from "../contract/match-agents.ts";
import { cutList } from "../contract/missing-data.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { type RedRow, type TopRow, topResultSchema } from "../schemas/traffic.ts";
import { ratio, redRowOf } from "./red-rows.ts";
import { trafficNotes } from "./traffic-notes.ts";

/** Services read before sorting and truncating. */
const servicesMax = 10_000;

export const queryTop = defineTool({
  name: "coral_query_top",
  title: "Busiest services",
  description:
    "Show the busiest services now, by rate, errors, p95 or CPU: requests per second, error share, latency, queue, CPU and memory.",
  input: z.object({
    sort: z.enum(["rate", "errors", "p95", "cpu"]).default("rate").describe("order, highest first"),
    agent: agentInput(),
    since: sinceInput("1m", { maxMs: 86_400_000 }),
    limit: limitInput(30, 10_000),
    points: pointsInput(12, 120),
  }),
  output: topResultSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const { agents, chosen, which } = await chooseAgents(backend, input.agent, context);
    const request = { by: "service" as const, sinceMs: input.since, maxPoints: input.points, limit: servicesMax, compare: false, ...which };
    const [facts, cpu] = await Promise.all([backend.red(request, context), backend.serviceCpu(context)]);
    const red = facts.rows.map((fact) => redRowOf(fact, facts));
    const rows = topRows(red, chosen === undefined ? cpu : []).sort(orders[input.sort]);
    const notes = await trafficNotes(backend, { agents, chosen, sinceMs: input.since, isEmpty: red.length === 0 }, context);
    const shown = cutList(rows, input.limit, "services", "raise limit");
    const answered = red.filter((row) => row.role === "server");
    const sum = (list: readonly RedRow[], read: (row: RedRow) => number): number => list.reduce((total, row) => total + read(row), 0);
    return {
      output: {
        sinceMs: input.since,
        windowMs: facts.windowMs,
        total: rows.length,
        perSecond: sum(answered, (row) => row.perSecond),
        errorRatio: ratio(
          sum(answered, (row) => row.errors),
          sum(answered, (row) => row.requests),
        ),
        rows: shown.items,
      },
      completeness: completenessOf([...notes, ...shown.notes]),
    };
  },
});

/** One row per service: requests served, or requests sent when it serves none. */
function topRows(red: readonly RedRow[], cpu: readonly ServiceCpuFact[]): TopRow[] {
  const groups = new Map<string, RedRow[]>();
  for (const row of red) groups.set(row.service, [...(groups.get(row.service) ?? []), row]);
  const cpuOf = new Map(cpu.map((fact) => [fact.service, fact]));
  for (const { service } of cpu) if (!groups.has(service)) groups.set(service, []);
  return [...groups].map(([service, rows]) => {
    const answered = rows.filter((row) => row.role === "server");
    const used = answered.length > 0 ? answered : rows;
    const requests = used.reduce((total, row) => total + row.requests, 0);
    // Percentiles of several protocols cannot be merged; use the protocol with the most requests.
    const main = used.reduce<RedRow | undefined>((best, row) => (best && best.requests >= row.requests ? best : row), undefined);
    return {
      service,
      role: main?.role ?? null,
      protocols: [...new Set(used.map((row) => row.protocol))],
      perSecond: used.reduce((total, row) => total + row.perSecond, 0),
      errorRatio: ratio(
        used.reduce((total, row) => total + row.errors, 0),
        requests,
      ),
      p50Us: main?.p50Us ?? null,
      p95Us: main?.p95Us ?? null,
      p99Us: main?.p99Us ?? null,
      queueMeanUs: main?.queueMeanUs ?? null,
      cpuCores: cpuOf.get(service)?.cpuCores ?? null,
      rssBytes: cpuOf.get(service)?.rssBytes ?? null,
      points: sumPoints(used),
    };
  });
}

function sumPoints(rows: readonly RedRow[]): number[] {
  const longest = Math.max(0, ...rows.map((row) => row.points.length));
  return Array.from({ length: longest }, (_, index) => rows.reduce((total, row) => total + (row.points[index] ?? 0), 0));
}

const byName = (a: TopRow, b: TopRow): number => a.service.localeCompare(b.service);
const orders: Record<"rate" | "errors" | "p95" | "cpu", (a: TopRow, b: TopRow) => number> = {
  rate: (a, b) => b.perSecond - a.perSecond || (b.cpuCores ?? 0) - (a.cpuCores ?? 0) || byName(a, b),
  errors: (a, b) => b.errorRatio * b.perSecond - a.errorRatio * a.perSecond || b.perSecond - a.perSecond || byName(a, b),
  p95: (a, b) => (b.p95Us ?? -1) - (a.p95Us ?? -1) || byName(a, b),
  cpu: (a, b) => (b.cpuCores ?? -1) - (a.cpuCores ?? -1) || b.perSecond - a.perSecond || byName(a, b),
};
