/**
 * Receives OTLP sent to the colony itself, such as from functions without an agent on their host. Like an agent, the inbox stores
 * it in its own store; from there it moves to the colony's store exactly once, like a pull.
 */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { repeat } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import { ResourceStack } from "../../base/resource-stack.ts";
import type { OtlpConfig } from "../../config/index.ts";
import { createOtlpClient, MetricIntake, OtlpIntake, type OtlpStatus, startOtlpServers } from "../../otlp/index.ts";
import { openAgentStore } from "../../store/agent/index.ts";
import type { ColonyStore } from "../../store/colony/index.ts";
import type { Engine } from "../../store/engine/index.ts";
import type { ColonySegments } from "../../store/segments/index.ts";
import { metricLoss, metricPoint, metricSeries, type Signal, segmentSignals } from "../../store/signals/index.ts";
import { moveRows, moveSegments } from "./move-signals.ts";

export interface InboxOptions {
  config: { otlp: OtlpConfig };
  engine: Engine;
  /** Holds the inbox's own directory; DuckDB must be allowed to read it. */
  paths: { dataDirectory: string };
  /** Called when OTLP load justifies more memory for speed, and when it no longer does. */
  onOtlpLoad?: (isBusy: boolean) => void;
  clock: Clock;
  log: Logger;
}

type Target = Pick<ColonySegments, "checkpoints" | "receive" | "commit">;
type RowTarget = Pick<ColonyStore, "checkpoints" | "applyPulls">;

export interface Inbox extends AsyncDisposable {
  status(): OtlpStatus;
  /** Moves stored rows and segments to the colony's store until the signal aborts. */
  run(signal: AbortSignal): Promise<void>[];
}

/** `agent_id` of rows that were sent to the colony itself. */
const inboxId = "colony";
const metricSignals = [metricPoint, metricSeries, metricLoss] as readonly Signal[];
const moveIntervalMs = 500;
const pruneIntervalMs = 60_000;
/** Retention of moved rows, and bound of the backlog while the colony's store rejects writes. */
const maxBytes = 256 * 1024 * 1024;

export async function openInbox(options: InboxOptions, target: Target, rowTarget: RowTarget): Promise<Inbox> {
  const { engine, clock } = options;
  const config = options.config.otlp;
  const log = options.log.child("otlp");
  const directory = join(options.paths.dataDirectory, "inbox");
  await mkdir(directory, { recursive: true, mode: 0o700 });
  return ResourceStack.assemble(async (stack) => {
    const network = { listen: startOtlpServers, connect: createOtlpClient };
    const intake = stack.use(
      new OtlpIntake({ config, network, directory, ...(options.onOtlpLoad && { onLoad: options.onOtlpLoad }), clock, log }),
    );
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
      if (segments) while (await moveSegments({ epoch: store.epoch, segments }, target, inboxId));
    };
    const metricNames = metricSignals.map(({ name }) => name);
    const moveMetrics = async (): Promise<void> => {
      while (await moveRows(store, rowTarget, inboxId, metricNames));
    };
    return {
      status: () => intake.status(),
      run: (signal) => [
        repeat("Moving inbox segments", moveIntervalMs, move, log, signal),
        repeat("Moving inbox metrics", moveIntervalMs, moveMetrics, log, signal),
        repeat("Recording inbox metric losses", pruneIntervalMs, () => metricIntake.reportLosses(), log, signal),
        repeat("Inbox retention", pruneIntervalMs, () => store.prune(), log, signal),
      ],
      [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose](),
    };
  });
}
