/** Wraps a backend so that SQL, inspected databases, runtime contexts, captures, replays, tokens and revocations are audited. Commands record their own entries. */

import { randomUUID } from "node:crypto";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { CaptureEvent, ColonyBackend, ToolCallContext } from "../../tools/index.ts";
import type { AuditNote, AuditRecorder } from "./audit-recorder.ts";
import type { QueryBudget } from "./query-budget.ts";

export interface WithAuditOptions {
  recorder: Pick<AuditRecorder, "note">;
  /** Absent: every query gets an entry of its own. */
  queries?: Pick<QueryBudget, "take">;
  log: Logger;
}

export function withAudit(backend: ColonyBackend, options: WithAuditOptions): ColonyBackend {
  const { recorder } = options;
  const change: Change = (note, context, work) => auditedChange(recorder, note, context, work);
  return {
    ...backend,
    sql: (request, context) => {
      const what = { kind: "sql", target: "colony", command: request.sql, isSql: true };
      return auditedQuery(
        options,
        what,
        context,
        () => backend.sql(request, context),
        ({ rows }) => ({ rows: rows.length }),
      );
    },
    // Audited because it reveals how a deployment is built.
    runtimeContext: (request, context) => {
      const command = request.refresh ? "runtime context, refreshed" : "runtime context";
      const what = { kind: "runtime", target: `agent ${request.agentId}`, command };
      return auditedQuery(
        options,
        what,
        context,
        () => backend.runtimeContext(request, context),
        () => ({}),
      );
    },
    inspectDatabases: (request, context) => auditedInspection(backend, options, request, context),
    capture: (request, context) => auditedCapture(backend, recorder, request, context),
    recording: async function* (request, context) {
      // Terminal output may contain secrets, so replays are audited too.
      const what = { kind: "replay", phase: "ended", target: `agent ${request.agentId}`, command: request.recording, reason: "replayed" };
      await recorder.note({ ...what, ...callerOf(context), command_id: randomUUID(), recording: request.recording });
      yield* backend.recording(request, context);
    },
    createToken: (request, context) => {
      const { kind, name, permission, validForMs, uses } = request;
      const command = `create ${kind} token ${name}`;
      return change({ kind: "token", target: "colony", command, details: { permission, validForMs, uses } }, context, () =>
        backend.createToken(request, context),
      );
    },
    ...auditedObjectives(backend, change),
    revokeToken: (tokenId, context) =>
      change({ kind: "token", target: "colony", command: `revoke ${tokenId}` }, context, () => backend.revokeToken(tokenId, context)),
    revokeAgent: (agentId, context) =>
      change({ kind: "agent", target: `agent ${agentId}`, command: "revoke" }, context, () => backend.revokeAgent(agentId, context)),
  };
}

type Change = <T>(note: Omit<AuditNote, "phase">, context: ToolCallContext, work: () => Promise<T>) => Promise<T>;

async function auditedChange<T>(
  recorder: Pick<AuditRecorder, "note">,
  note: Omit<AuditNote, "phase">,
  context: ToolCallContext,
  work: () => Promise<T>,
): Promise<T> {
  const about = { ...note, ...callerOf(context), command_id: randomUUID() };
  await recorder.note({ ...about, phase: "asked" });
  const startedMs = performance.now();
  try {
    const result = await work();
    await recorder.note({ ...about, phase: "ended", reason: "done", exit_code: 0, duration_ms: performance.now() - startedMs });
    return result;
  } catch (error) {
    await recorder.note({ ...about, phase: "ended", reason: CoralError.from(error).code, duration_ms: performance.now() - startedMs });
    throw error;
  }
}

/** An objective decides what is an incident. */
function auditedObjectives(backend: ColonyBackend, change: Change): Pick<ColonyBackend, "setObjective" | "removeObjective"> {
  return {
    setObjective: (request, context) => {
      const { service, route, p95Us, errorRatio } = request;
      const about = {
        kind: "slo",
        target: `service ${service}`,
        command: route === "" ? "set" : `set ${route}`,
        details: { p95Us, errorRatio },
      };
      return change(about, context, () => backend.setObjective(request, context));
    },
    removeObjective: (request, context) => {
      const { service, route } = request;
      const about = { kind: "slo", target: `service ${service}`, command: route === "" ? "remove" : `remove ${route}` };
      return change(about, context, () => backend.removeObjective(request, context));
    },
  };
}

/** Records a query before its answer is returned, within the budget. A failed write is only logged: with a full disk, queries must still show why. */
async function auditedQuery<T>(
  { recorder, queries, log }: WithAuditOptions,
  what: Omit<AuditNote, "phase">,
  context: ToolCallContext,
  query: () => Promise<T>,
  detailsOf: (answer: T) => Record<string, unknown>,
): Promise<T> {
  const startedMs = performance.now();
  const record = async (reason: string, details: Record<string, unknown>): Promise<void> => {
    if (queries?.take(context.caller ?? "", startedMs) === false) return;
    const result = { reason, details, exit_code: reason === "answered" ? 0 : 1, duration_ms: performance.now() - startedMs };
    await recorder
      .note({ ...what, phase: "ended", ...callerOf(context), ...result, command_id: randomUUID() })
      .catch((error: unknown) => log.error(`Cannot record a query by ${context.caller ?? "an unknown caller"} in the audit`, { error }));
  };
  try {
    const answer = await query();
    await record("answered", detailsOf(answer));
    return answer;
  } catch (error) {
    await record(CoralError.from(error).code, {});
    throw error;
  }
}

function auditedInspection(
  backend: ColonyBackend,
  options: WithAuditOptions,
  request: Parameters<ColonyBackend["inspectDatabases"]>[0],
  context: ToolCallContext,
): ReturnType<ColonyBackend["inspectDatabases"]> {
  const { service, statement } = request;
  const command = statement === null ? "read statistics and locks" : `read statistics and locks, explain ${statement}`;
  return auditedQuery(
    options,
    { kind: "database", target: `service ${service}`, command },
    context,
    () => backend.inspectDatabases(request, context),
    ({ found }) => ({ databases: found.length }),
  );
}

async function* auditedCapture(
  backend: ColonyBackend,
  recorder: Pick<AuditRecorder, "note">,
  request: Parameters<ColonyBackend["capture"]>[0],
  context: ToolCallContext,
): AsyncGenerator<CaptureEvent> {
  const { service, route, status, minDurationMs, limit, durationMs, includeBody, agentIds } = request;
  const filters = [...(route === undefined ? [] : [`route=${route}`]), ...(status === undefined ? [] : [`status=${status}`])];
  const command = ["capture", ...filters, ...(includeBody ? ["with bodies"] : [])].join(" ");
  const details = { minDurationMs, limit, durationMs, agents: agentIds.length };
  const about = { kind: "capture", target: `service ${service}`, command, ...callerOf(context) };
  // The first event has the id; agents record their own entry before they capture anything.
  let commandId = randomUUID() as string;
  let isStarted = false;
  let requests = 0;
  const startedMs = performance.now();
  let reason = "cancelled";
  try {
    for await (const event of backend.capture(request, context)) {
      if (event.kind === "started") {
        commandId = event.captureId;
        await recorder.note({ ...about, phase: "asked", command_id: commandId, details });
        isStarted = true;
      }
      if (event.kind === "request") requests++;
      if (event.kind === "ended") reason = "ended";
      yield event;
    }
  } catch (error) {
    reason = CoralError.from(error).code;
    throw error;
  } finally {
    const result = { reason, duration_ms: performance.now() - startedMs, details: { ...details, requests } };
    await recorder.note({ ...about, ...result, phase: isStarted ? "ended" : "denied", command_id: commandId });
  }
}

function callerOf({ caller = "", from = "", through = "http", questionId = "" }: ToolCallContext) {
  return { caller, caller_from: from, through, question_id: questionId };
}
