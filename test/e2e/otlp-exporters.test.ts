/** The unmodified OpenTelemetry SDK, configured by `OTEL_*` variables only: every OTLP protocol delivers everything. */

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { LogResult, MetricResult, TracesResult } from "../../src/tools/index.ts";
import { type AgentDaemon, type ColonyDaemon, startAgent, startColony } from "../support/daemon.ts";
import { coralJson } from "../support/run-coral.ts";
import { makeTestHome, type TestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

const program = fileURLToPath(new URL("../support/otel-program.mjs", import.meta.url));
const requests = 10;
const failed = 2;

let home: TestHome;
let colony: ColonyDaemon;
let agent: AgentDaemon;
let doors: { grpc: string; http: string };

beforeAll(async () => {
  home = makeTestHome();
  colony = await startColony({ home: home.path, config: "pull:\n  interval: 500ms\n" });
  agent = await startAgent({
    home: home.path,
    config: "otlp:\n  grpc:\n    listen: 127.0.0.1:0\n  http:\n    listen: 127.0.0.1:0\n",
  });
  await agent.waitUntilConnected();
  doors = (await ask<{ otlp: { grpc: string; http: string } }>(["agent", "status"])).otlp;
});
afterAll(async () => {
  for (const resource of [agent, colony, home]) await resource[Symbol.asyncDispose]();
});

const ask = <Result>(args: string[]): Promise<Result> => coralJson<Result>(args, { home: home.path });

async function runProgram(protocol: string, more: Record<string, string>): Promise<{ traceIds: string[] }> {
  const env = {
    PATH: process.env["PATH"] ?? "",
    OTEL_METRICS_EXPORTER: "otlp",
    OTEL_LOGS_EXPORTER: "otlp",
    OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://${protocol === "grpc" ? doors.grpc : doors.http}`,
    ...more,
  };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [program, String(requests)], { env });
  // The SDK logs export failures there.
  expect(stderr).toBe("");
  return JSON.parse(stdout) as { traceIds: string[] };
}

describe.each([
  { protocol: "grpc", service: "shop-grpc", more: {} },
  { protocol: "http/protobuf", service: "shop-proto", more: { OTEL_EXPORTER_OTLP_COMPRESSION: "gzip" } },
  { protocol: "http/json", service: "shop-json", more: { OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: "delta" } },
])("the OpenTelemetry SDK for Node by $protocol", ({ protocol, service, more }) => {
  let traceIds: string[];

  it("delivers every trace, with its errors", async () => {
    const resource = { OTEL_SERVICE_NAME: service, OTEL_RESOURCE_ATTRIBUTES: "service.version=1.2.3,deployment.environment.name=test" };
    ({ traceIds } = await runProgram(protocol, { ...resource, ...more }));
    expect(traceIds).toHaveLength(requests);
    const found = await waitFor("all traces", async () => {
      const { traces } = await ask<TracesResult>(["query", "traces", service]);
      return traces.length === requests ? traces : undefined;
    });
    expect(found.map(({ traceId }) => traceId).sort()).toEqual([...traceIds].sort());
    for (const trace of found) expect(trace).toMatchObject({ service, name: "GET /orders/:id", spans: 2, weight: 1 });
    expect(found.filter(({ errors }) => errors > 0)).toHaveLength(failed);
  });

  it("delivers attributes of all types, events, links and the parent", async () => {
    const { trace } = await ask<TracesResult>(["query", "traces", "--trace-id", traceIds[5] ?? "", "--details"]);
    const spans = trace?.spans ?? [];
    const [server, client] = [spans.find(({ kind }) => kind === "server"), spans.find(({ kind }) => kind === "client")];
    expect(client?.parentSpanId).toBe(server?.spanId);
    const text = JSON.stringify(spans);
    for (const part of [
      "shop.tags",
      "0.25",
      "9007199254740991",
      "shop.vip",
      "no stock for 5",
      "exception",
      "postgresql",
      traceIds[0] ?? "?",
    ])
      expect(text).toContain(part);
  });

  it("delivers log records with severity and trace", async () => {
    const { records } = await waitFor("the records", async () => {
      const result = await ask<LogResult>(["query", "logs", service]);
      return result.records.length === requests + failed ? result : undefined;
    });
    const bodies = records.filter(({ severity }) => severity === "error").map(({ body }) => body);
    expect(bodies.sort()).toEqual(["no stock for 0", "no stock for 5"]);
    expect(new Set(records.map(({ traceId }) => traceId))).toEqual(new Set(traceIds));
  });

  it("delivers counters, gauges and histograms with their units", async () => {
    const metric = async (name: string, by: string[] = []) =>
      waitFor(name, async () => {
        const { rows } = await ask<MetricResult>(["query", "metrics", name, "--service", service, ...by]);
        return rows.length > 0 ? rows : undefined;
      });
    expect(await metric("shop.orders", ["--by", "kind"])).toMatchObject([
      { group: "plain", unit: "{order}", total: requests / 2 },
      { group: "vip", unit: "{order}", total: requests / 2 },
    ]);
    expect(await metric("shop.stock")).toMatchObject([{ kind: "gauge", last: 42 }]);
    expect(await metric("shop.wait")).toMatchObject([{ kind: "histogram", unit: "ms", total: requests, mean: 45 }]);
  });
});
