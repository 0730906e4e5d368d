/** A colony's store with spans in real segments. */

import { readFileSync } from "node:fs";
import { silentLogger } from "../../base/log.ts";
import { type ColonyStore, openColonyStore } from "../colony/colony-store.ts";
import { batchFromSegmentRows, type SegmentRow } from "../segments/batch-builder.ts";
import type { ColonySegments } from "../segments/colony-segments.ts";
import type { SegmentOffer } from "../segments/plan-segments.ts";
import { writeSegmentFile } from "../segments/write-segment-file.ts";
import type { SegmentSignal } from "../signals/define-segment-signal.ts";
import { derivedSignals } from "../signals/signal-list.ts";
import { span } from "../signals/span.ts";
import { TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";

type StoredSpan = SegmentRow<(typeof span)["columns"]>;

/** The values a test cares about. Ids may be short: they are padded with zeros. */
export type SpanValues = Omit<Partial<StoredSpan>, "trace_id" | "span_id" | "parent_span_id"> & {
  trace: string;
  id: string;
  parent?: string;
  /** Microseconds after the start of the test's clock. */
  atUs: number;
};

export interface StoredSpans extends AsyncDisposable {
  readonly store: ColonyStore;
  readonly clock: TestClock;
  /** Adds spans as one segment of an agent. */
  add(spans: readonly SpanValues[], agentId?: string): Promise<void>;
}

export const traceIdOf = (text: string): string => text.padStart(32, "0");
const spanIdOf = (text: string): string => text.padStart(16, "0");

export async function openStoredSpans(): Promise<StoredSpans> {
  const folder = temporaryFolder();
  const engine = await testEngine(folder.path);
  const clock = new TestClock();
  const maxBytes = 64 * 1024 ** 2;
  const store = await openColonyStore(engine, {
    file: folder.file("colony.duckdb"),
    signals: derivedSignals,
    maxBytes,
    clock,
    log: silentLogger,
    segments: { signals: [span as SegmentSignal], directory: folder.path, maxBytes, unlinkDelayMs: 1 },
  });
  const segments = store.segments as ColonySegments;
  const stored = new Map<string, { number: number; rows: number }>();
  return {
    store,
    clock,
    add: async (spans, agentId = "a1") => {
      const before = stored.get(agentId) ?? { number: 0, rows: 0 };
      const number = before.number + 1;
      const file = folder.file(`${agentId}-${number}.parquet`);
      const startUs = Date.UTC(2026, 0, 1) * 1_000;
      const rows = spans.map(
        ({ trace, id, parent, atUs, ...rest }): StoredSpan => ({
          time: startUs + atUs,
          service: "api",
          trace_id: traceIdOf(trace),
          span_id: spanIdOf(id),
          parent_span_id: parent === undefined ? null : spanIdOf(parent),
          name: "work",
          kind: "internal",
          duration_ns: 1_000_000,
          status: "unset",
          weight: 1,
          ...rest,
        }),
      );
      const summary = writeSegmentFile(span as SegmentSignal, batchFromSegmentRows(span, rows), file);
      const offer: SegmentOffer = { signal: "span", firstNumber: number, number, rowsBefore: before.rows, isLost: false, ...summary };
      const epoch = `${agentId}-epoch`;
      await segments.receive(
        agentId,
        epoch,
        offer,
        (async function* () {
          yield readFileSync(file);
        })(),
      );
      const totalRows = before.rows + rows.length;
      await segments.commit({ agentId, epoch, signals: [{ signal: "span", lastNumber: number, totalRows, offers: [offer], isAll: true }] });
      stored.set(agentId, { number, rows: totalRows });
    },
    [Symbol.asyncDispose]: async () => {
      await store.close();
      await engine.close();
      folder[Symbol.dispose]();
    },
  };
}
