/** A colony's store with log records and patterns. */

import { readFileSync } from "node:fs";
import { silentLogger } from "../../base/log.ts";
import { type ColonyStore, openColonyStore } from "../colony/colony-store.ts";
import { batchFromRows } from "../columns/column-batch.ts";
import { encodeBatch } from "../columns/column-codec.ts";
import { batchFromSegmentRows, type SegmentRow } from "../segments/batch-builder.ts";
import type { ColonySegments } from "../segments/colony-segments.ts";
import type { SegmentOffer } from "../segments/plan-segments.ts";
import { writeSegmentFile } from "../segments/write-segment-file.ts";
import type { SegmentSignal } from "../signals/define-segment-signal.ts";
import type { RowOf, Signal } from "../signals/define-signal.ts";
import { logPattern, logRecord } from "../signals/log.ts";
import { TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";

type StoredLog = SegmentRow<(typeof logRecord)["columns"]>;
type StoredPattern = RowOf<(typeof logPattern)["columns"]>;

/** The values a test cares about. `agoMs` is the record's age by the test's clock. */
export type LogValues = Partial<StoredLog> & { agoMs: number };

export interface StoredLogs extends AsyncDisposable {
  readonly store: ColonyStore;
  readonly clock: TestClock;
  /** Adds records as one segment of an agent. */
  add(records: readonly LogValues[], agentId?: string): Promise<void>;
  addPatterns(patterns: readonly (Partial<StoredPattern> & { agoMs: number })[]): Promise<void>;
}

const severities = ["", "trace", "debug", "info", "warn", "error", "fatal"];

export async function openStoredLogs(): Promise<StoredLogs> {
  const folder = temporaryFolder();
  const engine = await testEngine(folder.path);
  const clock = new TestClock();
  const maxBytes = 64 * 1024 ** 2;
  const store = await openColonyStore(engine, {
    file: folder.file("colony.duckdb"),
    signals: [logPattern as Signal],
    maxBytes,
    clock,
    log: silentLogger,
    segments: { signals: [logRecord as SegmentSignal], directory: folder.path, maxBytes, unlinkDelayMs: 1 },
  });
  const segments = store.segments as ColonySegments;
  const stored = new Map<string, { number: number; rows: number }>();
  let patternSeq = 0;
  return {
    store,
    clock,
    add: async (records, agentId = "a1") => {
      const before = stored.get(agentId) ?? { number: 0, rows: 0 };
      const number = before.number + 1;
      const file = folder.file(`${agentId}-${number}.parquet`);
      const rows = records.map(({ agoMs, ...rest }): StoredLog => {
        const time = Math.round((clock.wallMs() - agoMs) * 1_000);
        const severity = rest.severity_number ?? 9;
        return {
          time,
          service: "api",
          severity: severities[Math.ceil(severity / 4)] ?? "",
          severity_number: severity,
          observed_time_us: time,
          body: "text",
          ...rest,
        };
      });
      const summary = writeSegmentFile(logRecord as SegmentSignal, batchFromSegmentRows(logRecord, rows), file);
      const offer: SegmentOffer = { signal: "log", firstNumber: number, number, rowsBefore: before.rows, isLost: false, ...summary };
      const epoch = `${agentId}-epoch`;
      const bytes = async function* () {
        yield readFileSync(file);
      };
      await segments.receive(agentId, epoch, offer, bytes());
      const totalRows = before.rows + rows.length;
      await segments.commit({ agentId, epoch, signals: [{ signal: "log", lastNumber: number, totalRows, offers: [offer], isAll: true }] });
      stored.set(agentId, { number, rows: totalRows });
    },
    addPatterns: async (patterns) => {
      const rows = patterns.map(
        ({ agoMs, ...rest }): StoredPattern => ({
          at: Math.round((clock.wallMs() - agoMs) * 1_000),
          mono_ms: 0,
          service: "api",
          pattern: "0123456789ab",
          template: "text",
          severity: "info",
          records: 1,
          is_new: false,
          example: null,
          ...rest,
        }),
      );
      const firstSeq = patternSeq + 1;
      patternSeq += rows.length;
      const batch = encodeBatch(batchFromRows(logPattern, rows), firstSeq);
      const slice = { signal: logPattern.name, oldestSeq: 1, nextSeq: patternSeq + 1, batch };
      const [outcome] = await store.applyPulls([{ agentId: "a1", epoch: "a1-epoch", slices: [slice], losses: [] }]);
      if (outcome?.error) throw outcome.error;
    },
    [Symbol.asyncDispose]: async () => {
      await store.close();
      await engine.close();
      folder[Symbol.dispose]();
    },
  };
}
