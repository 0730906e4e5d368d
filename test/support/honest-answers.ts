import type { PullRequest } from "../../src/proto/coral/agent/v1/agent_pb.ts";
import { batchFromRows } from "../../src/store/column-batch.ts";
import { encodeBatch } from "../../src/store/column-codec.ts";
import { listener, type RowBatch } from "../../src/store/index.ts";
import type { PullAnswer } from "./in-process-colony.ts";

/** Encoded rows of signal `listener`, numbered by their sequence. */
export function listenerBatch(firstSeq: number, rows: number, atMs: number = Date.now()): RowBatch {
  const numbered = Array.from({ length: rows }, (_, index) => ({
    at: Math.round(atMs * 1_000),
    mono_ms: performance.now(),
    service: `row-${firstSeq + index}`,
    named_by: "test",
    protocol: "tcp",
    address: "127.0.0.1",
    port: 1,
    pid: null,
    start_ticks: firstSeq + index,
    exe: null,
    user_id: 0,
    cgroup: null,
  }));
  return encodeBatch(batchFromRows(listener, numbered), firstSeq);
}

export interface WireBatch {
  firstSeq: bigint;
  lastSeq: bigint;
  rows: number;
  columns: { name: string; type: string }[];
  data: Uint8Array;
}

export function wireBatch({ firstSeq, lastSeq, rows, columns, data }: RowBatch): WireBatch {
  return { firstSeq: BigInt(firstSeq), lastSeq: BigInt(lastSeq), rows, columns, data };
}

/** An answer that gives `rows` new rows of `listener` at each pull, as an honest agent would. */
export function honestAnswer(request: PullRequest, epoch: string, rows = 2): PullAnswer {
  const after = Number(request.cursors.find(({ signal }) => signal === "listener")?.afterSeq ?? 0n);
  const batch = wireBatch(listenerBatch(after + 1, rows));
  return { epoch, slices: [{ signal: "listener", oldestSeq: 1n, nextSeq: batch.lastSeq + 1n, batch }], more: false };
}
