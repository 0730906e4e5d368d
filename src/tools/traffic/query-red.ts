import * as z from "zod";
import { given } from "../../base/given.ts";
import { trafficProtocols } from "../../model/protocols.ts";
import { type RedFacts, type RedRequest, redGroupings } from "../../model/red.ts";
import type { SummaryFacts } from "../../model/summary.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { agentInput, limitInput, peerInput, pointsInput, serviceInput, sinceInput } from "../contract/common-inputs.ts";
import { defineTool, type ToolCallContext } from "../contract/define-tool.ts";
import { chooseAgents } from "../contract/match-agents.ts";
import { judgeRoutes } from "../health/judge-routes.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { redResultSchema, trafficRoleSchema } from "../schemas/traffic.ts";
import { findSender } from "../services/find-service.ts";
import { redFindings } from "./red-findings.ts";
import { redRowOf } from "./red-rows.ts";
import { type SpanRedRows, spanRedRows } from "./span-red-rows.ts";
import { trafficNotes } from "./traffic-notes.ts";

/** Verdicts use the last minutes, independent of the shown period. */
const judgedMs = 300_000;

export const queryRed = defineTool({
  name: "coral_query_red",
  title: "Rate, errors, duration",
  description:
    "Show rate, error share, percentiles, queue time and bytes of requests that services served or sent, by service, route, peer or status, with findings. Needs no instrumentation; uses spans where kernel hooks saw no requests.",
  input: z.object({
    service: serviceInput(),
    peer: peerInput(),
    route: z.string().min(1).optional().describe("only routes and statements that contain this text"),
    protocol: z
      .string()
      .min(1)
      .optional()
      .describe(`only this protocol: ${trafficProtocols.join(", ")}`),
    role: trafficRoleSchema.optional().describe("requests served (server) or sent (client)"),
    agent: agentInput(),
    by: z.enum(redGroupings).optional().describe("group by; default: service, or route when a service is given"),
    since: sinceInput("5m"),
    limit: limitInput(50, 10_000),
    points: pointsInput(20, 120),
  }),
  output: redResultSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const { agents, chosen, which } = await chooseAgents(backend, input.agent, context);
    const by = input.by ?? (input.service === undefined ? "service" : "route");
    const request: RedRequest = {
      by,
      sinceMs: input.since,
      maxPoints: input.points,
      limit: input.limit,
      compare: true,
      ...given({ service: input.service, peer: input.peer, route: input.route, protocol: input.protocol, role: input.role }),
      ...which,
    };
    const [{ service, facts, spans }, health] = await Promise.all([
      readRed(backend, request, context),
      backend.summary({ sinceMs: judgedMs }, context),
    ]);
    const rows = [...facts.rows.map((fact) => redRowOf(fact, facts)), ...spans.rows]
      .sort((a, b) => b.requests - a.requests)
      .slice(0, input.limit);
    const total = facts.total + spans.total;
    const windowMs = facts.rows.length === 0 && spans.rows.length > 0 ? spans.windowMs : facts.windowMs;
    const [notes, judged] = await Promise.all([
      trafficNotes(backend, { agents, chosen, service, sinceMs: input.since, isEmpty: rows.length === 0 }, context),
      service === undefined ? health : withNewest(backend, health, service, context),
    ]);
    if (total > rows.length)
      notes.unshift({
        kind: "limit",
        message: `${rows.length} of ${total} rows are shown; narrow with service, route or peer, or raise limit`,
      });
    return {
      output: { sinceMs: input.since, windowMs, by, total, rows, findings: redFindings(rows, judgeRoutes(judged), input) },
      completeness: completenessOf(notes),
    };
  },
});

/**
 * The cached facts of all services may be older than the rows. Reads those of the named service again, after its rows, so that
 * the findings cover everything that the rows show.
 */
async function withNewest(backend: ColonyBackend, facts: SummaryFacts, service: string, context: ToolCallContext): Promise<SummaryFacts> {
  const routes = await backend.routeHealth({ service }, context);
  const read = new Set(routes.map((route) => route.service));
  return { ...facts, routes: [...facts.routes.filter((route) => !read.has(route.service)), ...routes] };
}

/** No rows: the name may differ in case or be partial; an unknown name is an error. */
async function readRed(
  backend: ColonyBackend,
  request: RedRequest,
  context: ToolCallContext,
): Promise<{ service: string | undefined; facts: RedFacts; spans: SpanRedRows }> {
  const read = async (asked: RedRequest): Promise<{ facts: RedFacts; spans: SpanRedRows }> => {
    const facts = await backend.red(asked, context);
    return { facts, spans: await spanRedRows(backend, asked, facts, context) };
  };
  const found = await read(request);
  const { service: asked } = request;
  if (found.facts.rows.length + found.spans.rows.length > 0 || asked === undefined) return { service: asked, ...found };
  const service = await findSender(backend, asked, context);
  return { service, ...(service === asked ? found : await read({ ...request, service })) };
}
