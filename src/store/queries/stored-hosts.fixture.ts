/** A colony's store in a temporary directory, with rows of made-up hosts. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Clock, systemClock } from "../../base/clock.ts";
import { createLogger } from "../../base/log.ts";
import { type ColonyStore, openColonyStore } from "../colony/colony-store.ts";
import { batchFromRows } from "../columns/column-batch.ts";
import { encodeBatch } from "../columns/column-codec.ts";
import { openEngine } from "../engine/engine.ts";
import type { Columns, RowOf, Signal } from "../signals/define-signal.ts";
import { connection, event, serviceInstance } from "../signals/discovery.ts";
import { host, hostCgroup, hostCpu, hostDisk, hostInterface, hostMount, hostProcess } from "../signals/host.ts";
import { metricLoss, metricPoint } from "../signals/metrics.ts";
import { profile, profileLoss, profileStack } from "../signals/profiles.ts";
import { derivedSignals, signals } from "../signals/signal-list.ts";
import { red, trafficLoss } from "../signals/traffic.ts";
import type { SignalSlice } from "../tables/signal-slice.ts";

export interface StoredHosts extends AsyncDisposable {
  readonly store: ColonyStore;
  /** Adds rows of one agent, in order, as one pull. `atMs` is their wall time. */
  add(agentId: string, rows: SignalRows, epoch?: string): Promise<void>;
  /** Adds rows of several agents in one transaction. */
  addAll(pulls: readonly { agentId: string; rows: SignalRows; epoch?: string }[]): Promise<void>;
  /** Closes and reopens the store, as after a colony restart. */
  reopen(): Promise<void>;
}

type Values<C extends Columns> = Partial<RowOf<C>> & { atMs: number };

/** The values a test cares about; everything else is zero, empty or null. */
export interface SignalRows {
  host?: Values<typeof host.columns>[];
  hostCpu?: Values<typeof hostCpu.columns>[];
  hostMount?: Values<typeof hostMount.columns>[];
  hostDisk?: Values<typeof hostDisk.columns>[];
  hostInterface?: Values<typeof hostInterface.columns>[];
  hostCgroup?: Values<typeof hostCgroup.columns>[];
  hostProcess?: Values<typeof hostProcess.columns>[];
  serviceInstance?: Values<typeof serviceInstance.columns>[];
  connection?: Values<typeof connection.columns>[];
  event?: Values<typeof event.columns>[];
  red?: Values<typeof red.columns>[];
  trafficLoss?: Values<typeof trafficLoss.columns>[];
  metricPoint?: Values<typeof metricPoint.columns>[];
  profile?: Values<typeof profile.columns>[];
  profileStack?: Values<typeof profileStack.columns>[];
  profileLoss?: Values<typeof profileLoss.columns>[];
  metricLoss?: Values<typeof metricLoss.columns>[];
}

const byName: Record<keyof SignalRows, Signal> = {
  host,
  hostCpu,
  hostMount,
  hostDisk,
  hostInterface,
  hostCgroup,
  hostProcess,
  serviceInstance,
  connection,
  event,
  red,
  trafficLoss,
  metricPoint,
  profile,
  profileStack,
  profileLoss,
  metricLoss,
};
const zeros: Record<string, unknown> = { text: "", int: 0, float: 0, bool: false, time: 0, uints: [] };

/** `hasDerived`: also creates the signals that a colony derives from spans. */
export async function openStoredHosts(clock: Clock = systemClock, options: { hasDerived?: boolean } = {}): Promise<StoredHosts> {
  const directory = mkdtempSync(join(tmpdir(), "coral-queries-"));
  const log = createLogger("test", "error", () => {});
  const engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 256 * 1024 ** 2, threads: 1, log });
  const open = (): Promise<ColonyStore> =>
    openColonyStore(engine, {
      file: join(directory, "colony.duckdb"),
      signals: options.hasDerived === true ? [...signals, ...derivedSignals] : signals,
      maxBytes: 1024 ** 3,
      clock,
      log,
    });
  let store = await open();
  const nextSeq = new Map<string, number>();
  const slicesOf = (agentId: string, rows: SignalRows, epoch: string): SignalSlice[] =>
    (Object.entries(rows) as [keyof SignalRows, { atMs: number }[]][]).map(([name, values]): SignalSlice => {
      const signal = byName[name];
      const key = `${agentId} ${epoch} ${name}`;
      const firstSeq = nextSeq.get(key) ?? 1;
      nextSeq.set(key, firstSeq + values.length);
      const full = values.map((value) => fullRow(signal, value));
      return {
        signal: signal.name,
        oldestSeq: 1,
        nextSeq: firstSeq + values.length,
        batch: encodeBatch(batchFromRows(signal, full), firstSeq),
      };
    });
  const addAll: StoredHosts["addAll"] = async (pulls) => {
    const outcomes = await store.applyPulls(
      pulls.map(({ agentId, rows, epoch = "epoch-1" }) => ({ agentId, epoch, slices: slicesOf(agentId, rows, epoch), losses: [] })),
    );
    for (const { error } of outcomes) if (error) throw error;
  };
  return {
    get store() {
      return store;
    },
    add: (agentId, rows, epoch = "epoch-1") => addAll([{ agentId, rows, epoch }]),
    addAll,
    reopen: async () => {
      await store.close();
      store = await open();
    },
    [Symbol.asyncDispose]: async () => {
      await store.close();
      await engine.close();
      rmSync(directory, { recursive: true });
    },
  };
}

function fullRow(signal: Signal, { atMs, ...values }: { atMs: number }): RowOf<Columns> {
  const defaults = Object.entries(signal.columns).map(([name, spec]) => [name, spec.endsWith("?") ? null : zeros[spec]]);
  return { ...Object.fromEntries(defaults), at: atMs * 1_000, mono_ms: atMs, ...values } as RowOf<Columns>;
}
