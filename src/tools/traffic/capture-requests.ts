import * as z from "zod";
import { CoralError, isErrorCode } from "../../base/errors.ts";
import { given } from "../../base/given.ts";
import { formatDurationMs } from "../../base/units.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { agentInput, limitInput } from "../contract/common-inputs.ts";
import { defineTool, type ToolCallContext } from "../contract/define-tool.ts";
import { durationInput } from "../contract/duration-input.ts";
import { describeInputProblems } from "../contract/input-problems.ts";
import { activeAgents, matchAgents } from "../contract/match-agents.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import { type CapturedRequest, type CaptureEnd, type CaptureEvent, captureResultSchema } from "../schemas/capture.ts";
import { type CompletenessNote, completenessOf } from "../schemas/completeness.ts";
import { findService } from "../services/find-service.ts";
import { trafficProblemOf } from "./traffic-notes.ts";

/** Protocols whose single requests cannot be shown: TLS that could not be decrypted. */
const unshownProtocols: ReadonlySet<string> = new Set(["tls"]);
const recentMs = 900_000;

const filters = {
  service: z.string().min(1).describe("name of the service"),
  route: z.string().min(1).optional().describe("only requests whose route or path contains this text"),
  status: z
    .string()
    .regex(/^(?:\d{1,3}|[1-5]xx|error)$/, "use a code such as 404, a class such as 5xx, or error")
    .optional()
    .describe("only responses with this code, class or failure: 404, 5xx, error"),
  minDuration: durationInput({ minMs: 0, maxMs: 3_600_000 }).prefault("0ms").describe("only requests that took at least this long: 250ms"),
  agent: agentInput(),
  body: z.boolean().default(false).describe("include the first bytes of bodies, redacted"),
};

const streamInput = z
  .object({
    ...filters,
    limit: limitInput(100, 100_000),
    duration: durationInput({ minMs: 100, maxMs: 86_400_000 }).prefault("30s"),
  })
  .strict();

export const captureRequests = defineTool({
  name: "coral_capture_requests",
  title: "Capture live requests",
  description:
    "Watch a service for some seconds and return single requests: method, path, status, allowed headers, sizes, timings; bodies only with body. Redacted at the agent and audited. For rates and percentiles use coral_query_red.",
  input: z.object({
    ...filters,
    limit: limitInput(20, 200),
    // The caller waits for the result; longer captures stream, as in coral capture.
    duration: durationInput({ minMs: 100, maxMs: 25_000 }).prefault("10s").describe("how long to capture, at most 25s"),
  }),
  output: captureResultSchema,
  permission: "debug",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const { service, events } = await prepare(backend, input, context);
    let captureId = "";
    const requests: CapturedRequest[] = [];
    const ends: CaptureEnd[] = [];
    for await (const event of events) {
      if (event.kind === "started") captureId = event.captureId;
      else if (event.kind === "request") requests.push(event.request);
      else if (event.kind === "agent-ended") ends.push(event.end);
    }
    throwWhenAllFailed(requests.length, ends);
    const notes = ends.flatMap(endNotes);
    if (requests.length === 0) notes.push({ kind: "no-data", message: await nothingCaptured(backend, service, input.duration, context) });
    return { output: { captureId, service, requests, ends }, completeness: completenessOf(notes) };
  },
});

/** Throws the first agent's problem when no agent could capture. */
function throwWhenAllFailed(requests: number, ends: readonly CaptureEnd[]): void {
  if (requests > 0 || ends.length === 0 || ends.some((end) => end.reason !== "failed" && end.reason !== "lost")) return;
  const [first] = ends;
  const code = isErrorCode(first?.code) ? first.code : "unavailable";
  throw new CoralError({ code, message: first?.problem ?? "Cannot capture: all agents disconnected" });
}

/** The streaming form of the tool, without its bounds. The first event names the agents. */
export async function startCapture(backend: ColonyBackend, input: unknown, context: ToolCallContext): Promise<AsyncIterable<CaptureEvent>> {
  const checked = streamInput.safeParse(input ?? {});
  if (!checked.success) throw describeInputProblems("coral_capture_requests", checked.error, streamInput, input);
  return (await prepare(backend, checked.data, context)).events;
}

/** Finds the agents where the service runs, and checks that at least one can capture. */
async function prepare(backend: ColonyBackend, input: z.infer<typeof streamInput>, context: ToolCallContext) {
  const [service, all] = await Promise.all([findService(backend, input.service, context), backend.agents(context)]);
  const active = activeAgents(all);
  const chosen = input.agent === undefined ? active : matchAgents(active, input.agent);
  const places = await backend.services({ service, processes: false }, context);
  const running = new Set(places.filter((place) => place.status !== "stale").map((place) => place.agentId));
  const hosts = chosen.filter((agent) => running.has(agent.agentId));
  checkHosts(service, hosts, input.agent);
  await checkProtocols(backend, service, context);
  const usable = hosts.filter((agent) => agent.connected && trafficProblemOf(agent) === null);
  const events = backend.capture(
    {
      service,
      agentIds: usable.map((agent) => agent.agentId),
      minDurationMs: input.minDuration,
      limit: input.limit,
      durationMs: input.duration,
      includeBody: input.body,
      ...given({ route: input.route, status: input.status }),
    },
    context,
  );
  return { service, events };
}

function checkHosts(service: string, hosts: readonly AgentInfo[], agent: string | undefined): void {
  if (hosts.length === 0) {
    const where = agent === undefined ? "it is not running" : `it is not running on agent "${agent}"`;
    throw new CoralError({ code: "not-found", message: `Cannot capture "${service}": ${where}; see coral services ${service}` });
  }
  const seeing = hosts.filter((host) => trafficProblemOf(host) === null);
  if (seeing.length === 0) {
    const [first] = hosts;
    const reason = first === undefined ? "" : `${first.hostname}: ${trafficProblemOf(first)}`;
    throw new CoralError({
      code: "unsupported",
      message: `Cannot capture "${service}": its agents do not see requests (${reason}); run coral doctor on that host`,
    });
  }
  if (!seeing.some((host) => host.connected)) {
    const names = seeing.map((host) => host.hostname).slice(0, 3);
    throw new CoralError({
      code: "unavailable",
      message: `Cannot capture "${service}": its agents are not connected (${names.join(", ")}); see coral agent list`,
    });
  }
}

/** A service without observed requests may still get some; one with only undecryptable protocols will not. */
async function checkProtocols(backend: ColonyBackend, service: string, context: ToolCallContext): Promise<void> {
  const spoken = await protocolsOf(backend, service, context);
  if (spoken.length === 0 || spoken.some((protocol) => !unshownProtocols.has(protocol))) return;
  throw new CoralError({
    code: "unsupported",
    message: `Cannot capture "${service}": it only speaks ${spoken.join(", ")}, whose requests cannot be read; coral query red ${service} shows its rates and durations`,
  });
}

async function protocolsOf(backend: ColonyBackend, service: string, context: ToolCallContext): Promise<string[]> {
  const facts = await backend.red({ service, by: "service", sinceMs: recentMs, maxPoints: 0, limit: 100, compare: false }, context);
  return [...new Set(facts.rows.map((row) => row.protocol))];
}

async function nothingCaptured(backend: ColonyBackend, service: string, durationMs: number, context: ToolCallContext): Promise<string> {
  const spoken = await protocolsOf(backend, service, context);
  const within = formatDurationMs(durationMs);
  if (spoken.length > 0) return `no matching request within ${within}; widen the filters or watch longer`;
  return `no request within ${within}, and none in the last ${formatDurationMs(recentMs)}; coral query red ${service} shows what its agents can see`;
}

function endNotes(end: CaptureEnd): CompletenessNote[] {
  const notes: CompletenessNote[] = [];
  if (end.reason === "lost" || end.reason === "failed")
    notes.push({
      kind: "unavailable",
      agent: end.agentId,
      message: `${end.hostname} stopped early: ${end.problem ?? "its tunnel was lost"}`,
    });
  if (end.dropped > 0)
    notes.push({
      kind: "rows-lost",
      agent: end.agentId,
      rows: end.dropped,
      message: `${end.dropped} requests of ${end.hostname} were dropped: they arrived faster than they could be sent`,
    });
  return notes;
}
