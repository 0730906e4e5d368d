/**
 * Segments of spans: write speed and file size, and how fast a colony pulls segments over HTTP/2 on loopback, each end in
 * a separate process, against a plain copy of the same files with fsync. A fifth of it with CORAL_BENCH_SMALL=1.
 */

import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { open, readFile, rename } from "node:fs/promises";
import { createServer } from "node:http2";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { addAgentService } from "../src/agent/link/agent-service.ts";
import { findSegmentFile } from "../src/agent/link/segment-service.ts";
import { systemClock } from "../src/base/clock.ts";
import { silentLogger } from "../src/base/log.ts";
import { createColonyMetrics } from "../src/colony/core/colony-metrics.ts";
import { SegmentPuller, type SegmentPullerOptions } from "../src/colony/pull/segment-puller.ts";
import { openAgentStore } from "../src/store/agent/index.ts";
import { openColonyStore } from "../src/store/colony/index.ts";
import { openEngine } from "../src/store/engine/index.ts";
import { type BatchColumn, type SegmentBatch, writeSegmentFile } from "../src/store/segments/index.ts";
import { span } from "../src/store/signals/index.ts";
import type { Tunnel } from "../src/transport/index.ts";
import { createClientSession, createSessionTransport } from "../src/transport/tunnel/session-transport.ts";
import { readServedFile, serveFile } from "../src/transport/tunnel/tunnel-files.ts";
import { figureOf, isSmall, report, single } from "./lib/report.ts";
import { ratioOf } from "./lib/spread.ts";
import { role, roleArguments, serveParent, Worker } from "./lib/worker.ts";

/** Rows of a full write-ahead file. */
const segmentRows = 20_000;
const segments = isSmall ? 6 : 30;
const rounds = isSmall ? 2 : 5;
const mebibyte = 1024 ** 2;
const startUs = Date.UTC(2026, 0, 1) * 1_000;
const common = { signals: [], maxBytes: 1_024 * mebibyte, clock: systemClock, log: silentLogger };
const kept = { signals: [span], maxBytes: 4_096 * mebibyte };

function dictionary(values: readonly string[], codeOf: (row: number) => number): BatchColumn {
  const parts = values.map((value) => Buffer.from(value));
  const offsets = new Uint32Array(parts.length + 1);
  for (const [index, part] of parts.entries()) offsets[index + 1] = (offsets[index] ?? 0) + part.length;
  return {
    kind: "dictionary",
    codes: Uint32Array.from({ length: segmentRows }, (_, row) => codeOf(row)),
    bytes: Buffer.concat(parts),
    offsets,
  };
}

function texts(textOf: (row: number) => string): BatchColumn {
  const parts = Array.from({ length: segmentRows }, (_, row) => Buffer.from(textOf(row)));
  const offsets = new Uint32Array(segmentRows + 1);
  for (const [index, part] of parts.entries()) offsets[index + 1] = (offsets[index] ?? 0) + part.length;
  return { kind: "text", bytes: Buffer.concat(parts), offsets };
}

/** A thousand services, twenty routes each, five spans a trace, 82 random bytes of attributes besides ids. */
function spans(segment: number): SegmentBatch {
  const names = (prefix: string, count: number): string[] => Array.from({ length: count }, (_, index) => `${prefix}${index}`);
  const service = (row: number): number => Math.floor(1_000 * ((row * 0.6180339887) % 1) ** 3);
  const ids = randomBytes((segmentRows / 5) * 16);
  const traces = Buffer.concat(
    Array.from({ length: segmentRows }, (_, row) => ids.subarray(Math.floor(row / 5) * 16, Math.floor(row / 5) * 16 + 16)),
  );
  const random = randomBytes(segmentRows * 82).toString("hex");
  const part = (row: number, from: number, length: number): string => random.slice(row * 164 + from, row * 164 + from + length);
  const attributes = (row: number): string =>
    `{"http.request.id":"${part(row, 0, 64)}","user.id":"${part(row, 64, 32)}","session.id":"${part(row, 96, 40)}","net.peer.ip":"10.0.${row % 250}.7","thread.id":${row % 64},"cache.key":"${part(row, 136, 28)}"}`;
  const resources = names('{"service.instance.id":"pod-', 1_000).map((text) => `${text}","telemetry.sdk.language":"nodejs"}`);
  const columns: Record<string, BatchColumn> = {
    time: {
      kind: "int64",
      values: BigInt64Array.from({ length: segmentRows }, (_, row) => BigInt(startUs + (segment * segmentRows + row) * 72)),
    },
    service: dictionary(names("service-", 1_000), service),
    trace_id: { kind: "fixed", widthBytes: 16, bytes: traces },
    span_id: { kind: "fixed", widthBytes: 8, bytes: randomBytes(segmentRows * 8) },
    parent_span_id: { kind: "fixed", widthBytes: 8, bytes: randomBytes(segmentRows * 8) },
    name: dictionary(names("GET /api/v1/things/", 20), (row) => row % 20),
    kind: dictionary(["server", "client", "internal"], (row) => row % 3),
    duration_ns: {
      kind: "int64",
      values: BigInt64Array.from(randomBytes(segmentRows * 3).subarray(0, segmentRows), (byte) => BigInt(byte) ** 3n + 1_000n),
    },
    status: dictionary(["unset", "error"], (row) => (row % 50 === 0 ? 1 : 0)),
    weight: { kind: "double", values: new Float64Array(segmentRows).fill(1) },
    http_method: dictionary(["GET", "POST"], (row) => (row % 4 === 0 ? 1 : 0)),
    http_route: dictionary(names("/api/v1/things/{id}/", 20), (row) => row % 20),
    http_status_code: { kind: "int32", values: Int32Array.from({ length: segmentRows }, (_, row) => (row % 50 === 0 ? 500 : 200)) },
    attributes: texts(attributes),
    resource: dictionary(resources, service),
  };
  return { rows: segmentRows, columns };
}

/** The agent's end: a store with all segments, served on loopback. Replies with its port and epoch. */
async function runAgent(directory: string): Promise<void> {
  const batches = Array.from({ length: Math.min(segments, 6) }, (_, index) => spans(index));
  let sealed = 0;
  await using engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 128 * mebibyte, threads: 1, log: silentLogger });
  await using store = await openAgentStore(engine, {
    ...common,
    file: join(directory, "agent.duckdb"),
    segments: {
      ...kept,
      directory,
      // Decoding has its own benchmark: here a body only identifies its batch.
      seal: (job) => Promise.resolve(writeSegmentFile(span, batches[sealed++ % batches.length] as SegmentBatch, job.temporaryFile)),
    },
  });
  for (let index = 0; index < segments; index++) {
    await store.segments?.append("span", { kind: 0, rows: segmentRows, receivedUs: startUs, body: new Uint8Array(16) });
    await store.segments?.flush();
  }
  const calls = connectNodeAdapter({
    routes: (router) => addAgentService(router, { agentId: "a1", sessionId: "s", store, clock: systemClock }),
  });
  const server = createServer((request, response) => {
    if (!serveFile(request, response, (name) => findSegmentFile(store, name))) calls(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await serveParent(() => Promise.resolve({ port, epoch: store.epoch, cpuMs: cpuMs() }));
  server.close();
}

function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** In a separate scope: retained rows would slow down every garbage collection in later measurements. */
function writeAll(directory: string): { writes: number[]; rowBytes: number } {
  const writes: number[] = [];
  let rowBytes = 0;
  for (let index = 0; index < Math.min(segments, 6); index++) {
    const batch = spans(index);
    const startMs = performance.now();
    const { sizeBytes } = writeSegmentFile(span, batch, join(directory, `${index}.parquet`));
    writes.push((segmentRows / (performance.now() - startMs)) * 1_000);
    rowBytes = sizeBytes / segmentRows;
  }
  return { writes, rowBytes };
}

async function runMain(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "coral-bench-"));
  try {
    const { writes, rowBytes } = writeAll(directory);
    for (const name of ["agent", "colony", "copy"]) mkdirSync(join(directory, name));
    await using engine = await openEngine({
      dataDirectories: [directory],
      memoryLimitBytes: 256 * mebibyte,
      threads: 2,
      log: silentLogger,
    });
    await using agent = new Worker("agent", [join(directory, "agent")]);
    const { port, epoch: agentEpoch } = await agent.ask<{ port: number; epoch: string }>({});
    const files = readdirSync(join(directory, "agent/segments/span")).filter((name) => /^\d/.test(name));
    // As in a tunnel, but without TLS.
    const session = createClientSession(connect(port, "127.0.0.1"));
    const transport = createSessionTransport(session, { maxReplyBytes: 32 * mebibyte, closedReason: () => "the benchmark is over" });
    const pulls: number[] = [];
    const copies: number[] = [];
    const used = { copy: 0, colony: 0, agent: 0 };
    const agentMs = async (): Promise<number> => (await agent.ask<{ cpuMs: number }>({})).cpuMs;
    for (let round = 0; round < rounds; round++) {
      const [startMs, agentStartMs] = [cpuMs(), await agentMs()];
      copies.push(await copyAll(files, join(directory, "copy", String(round))));
      used.copy += cpuMs() - startMs;
      pulls.push(await pullAll(join(directory, "colony", String(round))));
      used.agent += (await agentMs()) - agentStartMs;
      // Frees the page cache, so that the next round starts with as much memory as this one.
      for (const name of ["copy", "colony"]) rmSync(join(directory, name, String(round)), { recursive: true });
    }
    const each = (totalMs: number): string => (totalMs / rounds / segments).toFixed(1);
    session.destroy();
    report({
      name: "segments",
      sizes: { rows: segmentRows * segments, segments, rounds },
      figures: [
        figureOf("columns to a synced segment, one thread", "rows/s", writes, { kind: "at-least", value: 120_000 }),
        figureOf("bytes of a span on disk", "B", single(rowBytes), { kind: "at-most", value: 160 }),
        figureOf("pull of whole segments", "rows/s", pulls, { kind: "at-least", value: 500_000 }),
        figureOf("plain copy of the files with fsync", "rows/s", copies),
        figureOf("pull, of a plain copy with fsync", "×", ratioOf(pulls, copies), { kind: "at-least", value: 0.5 }),
      ],
      notes: [
        `CPU time per segment: ${each(used.colony)} ms at the colony, ${each(used.agent)} at the agent, ${each(used.copy)} to copy it.`,
      ],
    });

    async function copyAll(names: readonly string[], target: string): Promise<number> {
      mkdirSync(target);
      const startMs = performance.now();
      for (const name of names) {
        const handle = await open(join(target, `${name}.tmp`), "w");
        await handle.writeFile(await readFile(join(directory, "agent/segments/span", name)));
        await handle.sync();
        await handle.close();
        await rename(join(target, `${name}.tmp`), join(target, name));
      }
      return ((segmentRows * segments) / (performance.now() - startMs)) * 1_000;
    }

    async function pullAll(target: string): Promise<number> {
      mkdirSync(target);
      await using colony = await openColonyStore(engine, {
        ...common,
        file: join(target, "colony.duckdb"),
        segments: { ...kept, directory: target },
      });
      const pulled = colony.segments;
      if (pulled === undefined) throw new Error("the colony was opened without segments");
      const metrics = createColonyMetrics({ agentsByHealth: () => ({}), storeBytes: () => Promise.resolve(0) });
      const settings = () => ({ intervalMs: 5, timeoutMs: 30_000 });
      const stop = new AbortController();
      const [startMs, startCpuMs] = [performance.now(), cpuMs()];
      let takenMs = Number.NaN;
      const watched: SegmentPullerOptions["segments"] = {
        checkpoints: (agentId, epoch) => pulled.checkpoints(agentId, epoch),
        receive: (agentId, epoch, offer, bytes) => pulled.receive(agentId, epoch, offer, bytes),
        commit: async (pull) => {
          const outcome = await pulled.commit(pull);
          takenMs = performance.now() - startMs;
          if (pulled.stats()["span"]?.rows === segmentRows * segments) stop.abort();
          return outcome;
        },
      };
      const puller = new SegmentPuller({ segments: watched, signals: ["span"], settings, metrics, log: silentLogger });
      const readFile: Tunnel["readFile"] = (name, options) => readServedFile(session, name, options);
      await puller.run({ agentId: "a1", transport, readFile }, agentEpoch, stop.signal);
      used.colony += cpuMs() - startCpuMs;
      return ((segmentRows * segments) / takenMs) * 1_000;
    }
  } finally {
    rmSync(directory, { recursive: true });
  }
}

if (role === "agent") await runAgent(roleArguments[0] ?? "");
else await runMain();
