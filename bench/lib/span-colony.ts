/** A colony's store with many spans in it: another process writes whole segments, which are ingested as in a pull. */

import { createReadStream, rmSync } from "node:fs";
import { join } from "node:path";
import { type ColonyStore } from "../../src/store/colony/index.ts";
import { type SegmentSummary, writeSegmentFile } from "../../src/store/segments/index.ts";
import { span } from "../../src/store/signals/index.ts";
import { SpanWorld, type SpanWorldOptions } from "./span-world.ts";
import { serveParent, type Worker } from "./worker.ts";

interface Written {
  agent: number;
  file: string;
  summary: SegmentSummary;
  someTraces: string[];
}

/** The other process: writes one segment for each request. */
export async function runWriter(directory: string, options: SpanWorldOptions): Promise<void> {
  const world = new SpanWorld(options);
  let number = 0;
  await serveParent((): Promise<Written> => {
    const { agent, batch } = world.next();
    const file = join(directory, `${number++}.written`);
    const { lookupFilter, ...summary } = writeSegmentFile(span, batch, file);
    // Typed arrays do not survive the IPC channel to the parent.
    const filter = lookupFilter === undefined ? {} : { lookupFilter: Buffer.from(lookupFilter).toString("base64") };
    return Promise.resolve({
      agent,
      file,
      summary: { ...summary, ...filter } as unknown as SegmentSummary,
      someTraces: world.someTraces.splice(0),
    });
  });
}

/** Ingests segments from the writer until the store has this many spans. Returns ids of some traces. */
export async function fillColony(store: ColonyStore, writer: Worker, spans: number, afterEach: () => Promise<void>): Promise<string[]> {
  const { segments } = store;
  if (segments === undefined) throw new Error("the store was opened without segments");
  const heads = new Map<number, { number: number; rows: number }>();
  const traces: string[] = [];
  let next = writer.ask<Written>("next");
  for (let rows = 0; rows < spans; ) {
    const { agent, file, summary, someTraces } = await next;
    next = writer.ask<Written>("next");
    const head = heads.get(agent) ?? { number: 0, rows: 0 };
    const [agentId, epoch] = [`agent-${agent}`, `epoch-${agent}`];
    const lookupFilter = Buffer.from(String(summary.lookupFilter), "base64");
    const offer = {
      ...summary,
      lookupFilter,
      signal: "span",
      firstNumber: head.number + 1,
      number: head.number + 1,
      rowsBefore: head.rows,
      isLost: false,
    };
    await segments.receive(agentId, epoch, offer, createReadStream(file, { highWaterMark: 1024 ** 2 }));
    head.number++;
    head.rows += summary.rows;
    heads.set(agent, head);
    await segments.commit({
      agentId,
      epoch,
      signals: [{ signal: "span", lastNumber: head.number, totalRows: head.rows, offers: [offer], isAll: true }],
    });
    rmSync(file);
    rows += summary.rows;
    traces.push(...someTraces);
    await afterEach();
  }
  await next;
  return traces;
}
