/** AgentService: the RPCs that the colony calls through the tunnel. */

import type { ConnectRouter, HandlerContext } from "@connectrpc/connect";
import type { Clock } from "../../base/clock.ts";
import {
  AgentService,
  type CaptureRequest,
  type InspectDatabaseRequest,
  type PullRequest,
  type QueryRequest,
} from "../../proto/coral/agent/v1/agent_pb.ts";
import type { VerifyAuditRequest } from "../../proto/coral/agent/v1/audit_pb.ts";
import type {
  DecideApprovalRequest,
  ExecuteRequest,
  GetRuntimeContextRequest,
  ReadRecordingRequest,
} from "../../proto/coral/agent/v1/commands_pb.ts";
import type { AgentStore } from "../../store/agent/index.ts";
import type { SignalSlice } from "../../store/tables/index.ts";
import { runtimeToWire } from "../../transport/index.ts";
import { type RemoteAudit, recordAnchor, verifyAudit } from "../audit/audit-service.ts";
import type { CaptureService } from "../capture/capture-service.ts";
import type { ExecuteService } from "../commands/execute-service.ts";
import type { DatabaseService } from "../databases/database-service.ts";
import type { QueryService } from "./query-service.ts";
import type { RuntimeWatch } from "./runtime-watch.ts";
import { serveListSegments, serveReadSegment } from "./segment-service.ts";

export interface AgentServiceOptions {
  agentId: string;
  sessionId: string;
  store: Pick<AgentStore, "epoch" | "heads" | "readAfter" | "losses"> & Partial<Pick<AgentStore, "segments">>;
  /** Why rows cannot be stored now; empty while they can. Absent: not known. */
  storeProblem?: () => string;
  /** Absent: the agent cannot capture. */
  captures?: CaptureService;
  /** Absent: the agent's store cannot be queried. */
  queries?: QueryService;
  /** Absent: the agent inspects no databases. */
  databases?: Pick<DatabaseService, "inspect">;
  /** The colony that calls; empty while it is unknown. */
  colonyId?: () => string;
  /** Absent: the agent has no audit log. */
  audit?: RemoteAudit;
  /** Absent: the agent does not report its runtime context. */
  runtime?: Pick<RuntimeWatch, "current" | "refresh">;
  /** Absent: the agent runs no commands. */
  commands?: ExecuteService;
  clock: Clock;
}

/** Upper limit of one response; a colony's request cannot exceed it. */
const maxResponseBytes = 16 * 1024 * 1024;
/** Rows of one signal in one response; the byte limit is usually reached first. */
const maxRowsPerSignal = 100_000;

/** Methods for absent parts are not registered, so that the colony gets `unimplemented`. */
export function addAgentService(router: ConnectRouter, options: AgentServiceOptions): void {
  const { captures, runtime, audit, commands, queries, databases } = options;
  router.service(AgentService, {
    hello: () => ({ agentId: options.agentId, sessionId: options.sessionId }),
    pull: (request) => servePull(options, request),
    listSegments: (request) => serveListSegments(options.store, request),
    readSegment: (request) => serveReadSegment(options.store, request),
    ...(runtime
      ? {
          getRuntimeContext: async ({ refresh }: GetRuntimeContextRequest, context: HandlerContext) => {
            if (refresh) await runtime.refresh("requested", context.signal);
            return { context: runtimeToWire(runtime.current()) };
          },
        }
      : {}),
    ...(queries ? { query: (request: QueryRequest, context: HandlerContext) => queries.run(request, context.signal) } : {}),
    ...(databases
      ? { inspectDatabase: (request: InspectDatabaseRequest, context: HandlerContext) => databases.inspect(request, context.signal) }
      : {}),
    ...(audit ? { verifyAudit: (request: VerifyAuditRequest) => verifyAudit(audit, request) } : {}),
    ...(commands ? commandMethods(commands) : {}),
    ...(captures ? { capture: (request: CaptureRequest, context: HandlerContext) => captures.capture(request, context.signal) } : {}),
  });
}

function commandMethods(commands: ExecuteService) {
  return {
    execute: (requests: AsyncIterable<ExecuteRequest>, context: HandlerContext) => commands.execute(requests, context.signal),
    decideApproval: async (request: DecideApprovalRequest) => {
      await commands.decideApproval(request);
      return {};
    },
    readRecording: ({ recording }: ReadRecordingRequest) => commands.readRecording(recording),
  };
}

/** Fills the response signal by signal until the byte limit; `more` makes the colony pull again at once. */
async function servePull({ store, storeProblem, clock, audit, colonyId }: AgentServiceOptions, request: PullRequest) {
  // If the store rejects the entry, the losses of this response show it.
  if (audit) await recordAnchor(audit, request.colonyAudit, colonyId?.() ?? "").catch(() => undefined);
  const heads = store.heads();
  let remainingBytes = Math.min(Number(request.maxBytes), maxResponseBytes);
  let more = false;
  let oldestMonoMs = Number.POSITIVE_INFINITY;
  const slices: SignalSlice[] = [];
  for (const { signal, afterSeq } of request.cursors) {
    const head = heads.get(signal);
    // A newer colony may know signals that this agent does not have.
    if (!head) continue;
    const after = Number(afterSeq);
    // Nothing new. A first pull still gets a slice for each signal.
    if (after > 0 && head.nextSeq === after + 1) continue;
    if (head.nextSeq <= after + 1 || remainingBytes <= 0) {
      more ||= head.nextSeq > after + 1;
      slices.push({ signal, ...head });
      continue;
    }
    const slice = await store.readAfter(signal, after, { maxBytes: remainingBytes, maxRows: maxRowsPerSignal });
    slices.push(slice);
    if (!slice.batch) continue;
    remainingBytes -= slice.batch.data.byteLength;
    oldestMonoMs = Math.min(oldestMonoMs, slice.batch.firstMonoMs ?? oldestMonoMs);
    more ||= slice.batch.lastSeq + 1 < slice.nextSeq;
  }
  return {
    epoch: store.epoch,
    slices: slices.map(toWire),
    more,
    losses: store.losses().map((loss) => ({ ...loss, rows: BigInt(loss.rows) })),
    storeProblem: storeProblem?.() ?? "",
    // Negative after a reboot: the monotonic clock restarted while the rows were stored.
    oldestAgeMs: BigInt(Math.max(0, Math.round(Number.isFinite(oldestMonoMs) ? clock.monotonicMs() - oldestMonoMs : 0))),
  };
}

function toWire({ signal, oldestSeq, nextSeq, batch }: SignalSlice) {
  return {
    signal,
    oldestSeq: BigInt(oldestSeq),
    nextSeq: BigInt(nextSeq),
    ...(batch
      ? {
          batch: {
            firstSeq: BigInt(batch.firstSeq),
            lastSeq: BigInt(batch.lastSeq),
            rows: batch.rows,
            columns: batch.columns,
            data: batch.data,
          },
        }
      : {}),
  };
}
