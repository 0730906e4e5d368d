import type { ResourceStack } from "../base/resource-stack.ts";
import type { ColonyConfig } from "../config/index.ts";
import { type ColonyStore, openColonyStore } from "../store/colony/index.ts";
import { derivedSignals, segmentSignals, signals } from "../store/signals/index.ts";
import type { ColonyContext } from "./core/colony-context.ts";

/** Opens the colony's store with the retention of the config; the stack closes it. */
export async function openColonyData(
  { config, paths, engine, writes, clock, log }: ColonyContext,
  stack: ResourceStack,
): Promise<ColonyStore> {
  const store = await openColonyStore(engine, {
    file: paths.databaseFile,
    signals: withRetention([...signals, ...derivedSignals], config),
    maxBytes: config.store.maxSizeBytes,
    segments: {
      signals: withRetention(segmentSignals, config),
      directory: paths.dataDirectory,
      maxBytes: config.store.maxSegmentBytes,
    },
    onWrite: writes.onWrite,
    clock,
    log: log.child("store"),
  });
  stack.defer(() => store.close());
  return store;
}

/** The signals, with the config's retention where it sets one. */
function withRetention<S extends (typeof signals)[number] | (typeof segmentSignals)[number]>(
  declared: readonly S[],
  config: ColonyConfig,
): S[] {
  return declared.map((signal) => {
    const maxAgeMs = config.retentionMs[signal.name];
    if (maxAgeMs === undefined) return signal;
    return { ...signal, retention: { ...signal.retention, colony: { ...signal.retention.colony, maxAgeMs } } };
  });
}
