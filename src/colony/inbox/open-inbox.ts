/**
 * What programs send to the colony itself by OTLP, such as functions that have no agent beside them. It is taken as an agent takes it, into a store of
 * its own, and moved from there like any agent's segments: each exactly once.
 */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import { repeat } from "../../base/repeat.ts";
import { ResourceStack } from "../../base/resource-stack.ts";
import type { OtlpConfig } from "../../config/index.ts";
import { createOtlpClient, MetricIntake, OtlpIntake, type OtlpStatus, startOtlpServers } from "../../otlp/index.ts";
import { type AgentStore, openAgentStore } from "../../store/agent/index.ts";
import { type ColonyStore } from "../../store/colony/index.ts";
import { type Engine } from "../../store/engine/index.ts";
import {
  type AgentSegments,
  type ColonySegments,
  type PulledSignal,
  type SegmentEntry,
  type SegmentOffer,
} from "../../store/segments/index.ts";
import { metricLoss, metricPoint, metricSeries, type Signal, segmentSignals } from "../../store/signals/index.ts";
import { moveRows } from "./move-rows.ts";

export interface InboxOptions {
  config: { otlp: OtlpConfig };
  engine: Engine;
  /** The inbox has a folder of its own in it; DuckDB must be allowed to read it. */
  paths: { dataDirectory: string };
  /** Told when so much OTLP comes that being fast is worth memory, and when that is over. */
  onOtlpLoad?: (isBusy: boolean) => void;
  clock: Clock;
  log: Logger;
}

type Target = Pick<ColonySegments, "checkpoints" | "receive" | "commit">;
type RowTarget = Pick<ColonyStore, "checkpoints" | "applyPulls">;

export interface Inbox extends AsyncDisposable {
  status(): OtlpStatus;
  /** Moves what is stored to the colony's own store, until the signal aborts. */
  run(signal: AbortSignal): Promise<void>[];
}

/** Stands in `agent_id` of what was sent to the colony. */
export const inboxId = "colony";
const metricSignals = [metricPoint, metricSeries, metricLoss] as readonly Signal[];
const maxSegmentsPerMove = 16;
const moveIntervalMs = 500;
const pruneIntervalMs = 60_000;
/** Of what was moved, and of what waits while the colony's own files cannot be written. */
const maxBytes = 256 * 1024 * 1024;

export async function openInbox(options: InboxOptions, target: Target, rowTarget: RowTarget): Promise<Inbox> {
  const { engine, clock } = options;
  const config = options.config.otlp;
  const log = options.log.child("otlp");
  const directory = join(options.paths.dataDirectory, "inbox");
  await mkdir(directory, { recursive: true, mode: 0o700 });
  return ResourceStack.assemble(async (stack) => {
    const doors = { listen: startOtlpServers, connect: createOtlpClient };
    const intake = stack.use(new OtlpIntake({ config, doors, ...(options.onOtlpLoad && { onLoad: options.onOtlpLoad }), clock, log }));
    const store = await openAgentStore(engine, {
      name: "inbox",
      file: `${directory}/inbox.duckdb`,
      signals: metricSignals,
      maxBytes,
      segments: { signals: segmentSignals, directory, maxBytes, seal: intake.pool.seal, sealConcurrency: config.workers },
      clock,
      log,
    });
    stack.defer(() => store.close());
    const metricIntake = new MetricIntake({ store, clock });
    await intake.start({ segments: () => store.segments, storeMetrics: (points) => metricIntake.store(points) });
    stack.defer(() => intake.stop());
    const segments = store.segments;
    const move = async (): Promise<void> => {
      if (segments) while (await moveSegments(store, segments, target));
    };
    const metricNames = metricSignals.map(({ name }) => name);
    const moveMetrics = async (): Promise<void> => {
      while (await moveRows(store, rowTarget, inboxId, metricNames));
    };
    return {
      status: () => intake.status(),
      run: (signal) => [
        repeat("Moving what was sent to the colony", moveIntervalMs, move, log, signal),
        repeat("Moving metrics that were sent to the colony", moveIntervalMs, moveMetrics, log, signal),
        repeat("Losses of metrics that were sent to the colony", pruneIntervalMs, () => metricIntake.tellLosses(), log, signal),
        repeat("Retention of what was sent to the colony", pruneIntervalMs, () => store.prune(), log, signal),
      ],
      [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose](),
    };
  });
}

async function moveSegments(store: AgentStore, segments: AgentSegments, colony: Target): Promise<boolean> {
  const { epoch } = store;
  const checkpoints = colony.checkpoints(inboxId, epoch);
  const pulled: PulledSignal[] = [];
  for (const { name } of segmentSignals) {
    const { entries, lastNumber, totalRows, more } = segments.listAfter(name, checkpoints.get(name) ?? 0, maxSegmentsPerMove);
    const filters = await segments.lookupFilters(entries);
    const offers: SegmentOffer[] = entries.map((entry) => offerOf(name, entry, filters.get(entry)));
    for (const offer of offers) if (!offer.isLost) await colony.receive(inboxId, epoch, offer, segments.read(name, offer.number, 0));
    pulled.push({ signal: name, lastNumber, totalRows, offers, isAll: !more });
  }
  const hasNews = pulled.some(({ offers, lastNumber, signal }) => offers.length > 0 || lastNumber > (checkpoints.get(signal) ?? 0));
  if (hasNews) await colony.commit({ agentId: inboxId, epoch, signals: pulled });
  return pulled.some(({ isAll }) => !isAll);
}

function offerOf(signal: string, entry: SegmentEntry, lookupFilter: Uint8Array | undefined): SegmentOffer {
  const { firstNumber, number, rowsBefore, rows, sizeBytes, minTimeUs, maxTimeUs, services, schemaVersion, sha256, state } = entry;
  return {
    signal,
    firstNumber,
    number,
    rowsBefore,
    rows,
    sizeBytes,
    minTimeUs,
    maxTimeUs,
    services,
    ...(lookupFilter && lookupFilter.length > 0 && { lookupFilter }),
    schemaVersion,
    sha256,
    isLost: state === "lost",
  };
}
