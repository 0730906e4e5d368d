import type { PullRequest } from "../../src/proto/coral/agent/v1/agent_pb.ts";
import { batchFromRows } from "../../src/store/columns/column-batch.ts";
import { encodeBatch } from "../../src/store/columns/column-codec.ts";
import { type RowBatch } from "../../src/store/columns/index.ts";
import { hostProcess } from "../../src/store/signals/index.ts";
import type { PullAnswer } from "./in-process-colony.ts";

/** Encoded rows of signal `host_process`, numbered by their sequence. */
export function processBatch(firstSeq: number, rows: number, atMs: number = Date.now()): RowBatch {
  const numbered = Array.from({ length: rows }, (_, index) => ({
    at: Math.round(atMs * 1_000),
    mono_ms: performance.now(),
    pid: 1,
    start_ticks: firstSeq + index,
    name: `row-${firstSeq + index}`,
    exe: null,
    user_id: 0,
    cgroup: null,
    state: "S",
    cpu_cores: 0,
    rss_bytes: 0,
    threads: 1,
    open_files: null,
    major_faults_per_s: 0,
  }));
  return encodeBatch(batchFromRows(hostProcess, numbered), firstSeq);
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

/** A pull handler that returns `rows` new rows of `host_process` per pull, as a correct agent would. */
export function validPullReply(request: PullRequest, epoch: string, rows = 2): PullAnswer {
  const after = Number(request.cursors.find(({ signal }) => signal === "host_process")?.afterSeq ?? 0n);
  const batch = wireBatch(processBatch(after + 1, rows));
  return { epoch, slices: [{ signal: "host_process", oldestSeq: 1n, nextSeq: batch.lastSeq + 1n, batch }], more: false };
}
