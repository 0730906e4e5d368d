/** OTLP over gRPC and HTTP into the stores of an agent and a colony, with the real worker, and the errors that senders get. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, credentials } from "@grpc/grpc-js";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/log.ts";
import { openInbox } from "../../src/colony/inbox/open-inbox.ts";
import type { OtlpConfig } from "../../src/config/index.ts";
import { logRequest, type TestSpan, traceRequest } from "../../src/otlp/decode/otlp-encoder.fixture.ts";
import { createOtlpClient, OtlpIntake, type OtlpRequest, startOtlpServers } from "../../src/otlp/index.ts";
import { bundleWorker, openTestReceiver } from "../../src/otlp/intake/receiver.fixture.ts";
import { openColonyStore } from "../../src/store/colony/index.ts";
import { openEngine } from "../../src/store/engine/index.ts";
import { type ColonySegments, hexSql } from "../../src/store/segments/index.ts";
import { logRecord, type SegmentSignal, segmentSignals, signals, span } from "../../src/store/signals/index.ts";

const mebibyte = 1024 ** 2;
const anyPort = { host: "127.0.0.1", port: 0 };
const config: OtlpConfig = {
  enabled: true,
  grpc: anyPort,
  http: anyPort,
  tokenFile: undefined,
  maxBodyBytes: mebibyte,
  maxInFlightBytes: 8 * mebibyte,
  maxConnections: 32,
  workers: 1,
  sampling: { bytesPerSecond: undefined, slowMs: 500 },
  forward: undefined,
};
const network = { listen: startOtlpServers, connect: createOtlpClient };
const log = silentLogger;

const spanOf = (index: number): TestSpan => ({
  traceId: (index + 1).toString(16).padStart(32, "0"),
  spanId: (index + 1).toString(16).padStart(16, "0"),
  name: "op",
  startNs: 1_700_000_000_000_000_000n,
  endNs: 1_700_000_000_000_001_000n,
});
const traces = (...items: TestSpan[]) => traceRequest([{ resource: { "service.name": "fn" }, items }]);

function post(address: string | null, path: string, body: Uint8Array): Promise<Response> {
  return fetch(`http://${address}${path}`, { method: "POST", body, headers: { "content-type": "application/x-protobuf" } });
}

function callGrpc(address: string | null, body: Buffer): Promise<void> {
  const client = new Client(address ?? "", credentials.createInsecure());
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
      (value: Buffer) => value,
      (value: Buffer) => value,
      body,
      (error) => {
        client.close();
        if (error) reject(error);
        else resolve();
      },
    );
  });
}

describe("OTLP at an agent", () => {
  it("reaches the store over gRPC and HTTP, and is forwarded unchanged to another endpoint", async () => {
    const folder = mkdtempSync(join(tmpdir(), "coral-otlp-"));
    const workerFile = await bundleWorker(folder);
    const forwarded: OtlpRequest[] = [];
    await using other = new OtlpIntake({
      config,
      network: {
        ...network,
        listen: (options) =>
          startOtlpServers({
            ...options,
            handler: async (request) => {
              forwarded.push({ ...request, body: Buffer.from(request.body) });
              return { kind: "accepted", rejected: 0, message: "" };
            },
          }),
      },
      clock: systemClock,
      log,
    });
    await other.start({ segments: () => undefined });
    const forward = { endpoint: `http://${other.status().http}`, headers: {}, maxQueueBytes: mebibyte };
    await using intake = new OtlpIntake({ config: { ...config, forward }, network, clock: systemClock, log });
    await using test = await openTestReceiver({ workerFile });
    await intake.start({ segments: () => test.segments });
    const { grpc, http } = intake.status();
    const body = traces(spanOf(0));
    expect((await post(http, "/v1/traces", body)).status).toBe(200);
    expect((await post(http, "/v1/logs", logRequest([{ items: [{ body: "hello" }] }]))).status).toBe(200);
    await callGrpc(grpc, traces(spanOf(1), spanOf(2)));
    expect(await test.rows(span as unknown as SegmentSignal, "name")).toHaveLength(3);
    expect(await test.rows(logRecord as unknown as SegmentSignal, "body")).toEqual([{ body: "hello" }]);
    await expect.poll(() => forwarded.length).toBe(3);
    expect(forwarded.find(({ body: sent }) => Buffer.compare(sent, body) === 0)).toMatchObject({ signal: "traces", format: "protobuf" });
    expect(intake.status()).toMatchObject({ state: "on", forward: { sent: 3, dropped: 0 } });
    rmSync(folder, { recursive: true });
  });

  it("reports a port that is in use, and continues without it", async () => {
    await using first = new OtlpIntake({ config, network, clock: systemClock, log });
    await first.start({ segments: () => undefined });
    const port = Number(first.status().http?.split(":")[1]);
    await using second = new OtlpIntake({ config: { ...config, http: { host: "127.0.0.1", port } }, network, clock: systemClock, log });
    await second.start({ segments: () => undefined });
    expect(second.status()).toMatchObject({
      state: "unavailable",
      reason: expect.stringContaining(`port ${port} in use by another program; choose another with otlp.http.listen`),
      grpc: null,
    });
  });

  it("accepts nothing without the token, and nothing at all if the token cannot be read", async () => {
    const folder = mkdtempSync(join(tmpdir(), "coral-otlp-"));
    const tokenFile = join(folder, "token");
    await using broken = new OtlpIntake({ config: { ...config, tokenFile }, network, clock: systemClock, log });
    await broken.start({ segments: () => undefined });
    expect(broken.status()).toMatchObject({ state: "unavailable", reason: expect.stringContaining("token_file"), http: null });
    writeFileSync(tokenFile, "secret\n");
    await using intake = new OtlpIntake({ config: { ...config, tokenFile }, network, clock: systemClock, log });
    await intake.start({ segments: () => undefined });
    const send = (headers: Record<string, string>) =>
      fetch(`http://${intake.status().http}/v1/traces`, {
        method: "POST",
        body: new Uint8Array(0),
        headers: { "content-type": "application/x-protobuf", ...headers },
      });
    expect((await send({})).status).toBe(401);
    expect((await send({ authorization: "Bearer secre" })).status).toBe(401);
    expect((await send({ authorization: "Bearer secret" })).status).toBe(200);
    rmSync(folder, { recursive: true });
  });

  it("asks senders to retry while the store is unavailable", async () => {
    await using intake = new OtlpIntake({ config, network, clock: systemClock, log });
    await intake.start({ segments: () => undefined });
    const reply = await post(intake.status().http, "/v1/traces", traces(spanOf(0)));
    expect([reply.status, reply.headers.get("retry-after")]).toEqual([503, "5"]);
  });
});

describe("OTLP at a colony", () => {
  it("is stored once in the colony's own segments, even across a restart", async () => {
    const path = mkdtempSync(join(tmpdir(), "coral-inbox-"));
    await using engine = await openEngine({ dataDirectories: [path], memoryLimitBytes: 256 * mebibyte, threads: 1, log });
    mkdirSync(join(path, "data"));
    const colony = await openColonyStore(engine, {
      file: join(path, "data", "colony.duckdb"),
      signals,
      maxBytes: 64 * mebibyte,
      segments: { signals: segmentSignals, directory: join(path, "data"), maxBytes: 64 * mebibyte },
      clock: systemClock,
      log,
    });
    const segments = colony.segments as ColonySegments;
    const signal = span as unknown as SegmentSignal;
    const stored = async (): Promise<string[]> => {
      const source = await segments.segmentSource(signal);
      const rows = await colony.query(`SELECT agent_id, ${hexSql("id8", "span_id")} AS id FROM ${source.sql} ORDER BY id`);
      return rows.map((row) => `${row["agent_id"]} ${row["id"]}`);
    };
    const open = () =>
      openInbox(
        { config: { otlp: config }, engine, paths: { dataDirectory: join(path, "data") }, clock: systemClock, log },
        segments,
        colony,
      );
    const expected: string[] = [];
    for (let round = 0; round < 2; round++) {
      await using inbox = await open();
      const stopped = new AbortController();
      const loops = inbox.run(stopped.signal);
      const reply = await post(inbox.status().http, "/v1/traces", traces(spanOf(round * 2), spanOf(round * 2 + 1)));
      expect(reply.status).toBe(200);
      for (const index of [round * 2, round * 2 + 1]) expected.push(`colony ${(index + 1).toString(16).padStart(16, "0")}`);
      const metrics = {
        resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: `metric-${round}`, gauge: { dataPoints: [{ asDouble: 1.5 }] } }] }] }],
      };
      const metricsReply = await fetch(`http://${inbox.status().http}/v1/metrics`, {
        method: "POST",
        body: JSON.stringify(metrics),
        headers: { "content-type": "application/json" },
      });
      expect([metricsReply.status, await metricsReply.json()]).toEqual([200, {}]);
      await expect.poll(stored).toEqual(expected);
      const points = () => colony.query("SELECT agent_id, name, value FROM metric_point ORDER BY name");
      await expect
        .poll(points)
        .toEqual([0, 1].slice(0, round + 1).map((index) => ({ agent_id: "colony", name: `metric-${index}`, value: 1.5 })));
      stopped.abort();
      await Promise.allSettled(loops);
    }
    await colony.close();
    rmSync(path, { recursive: true });
  });
});
