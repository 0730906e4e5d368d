/** Diagnosis end to end, from OTLP requests of programs to the command line. */

import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { DiagnosisResult } from "../../src/tools/index.ts";
import { type AgentDaemon, type ColonyDaemon, startAgent, startColony } from "../support/daemon.ts";
import { coralJson, runCoral } from "../support/run-coral.ts";
import { makeTestHome, type TestHome } from "../support/test-home.ts";
import { uniqueName } from "../support/unique-name.ts";
import { waitFor } from "../support/wait-for.ts";

const minuteMs = 60_000;
const historyMs = 25 * minuteMs;
const faultMs = 4 * minuteMs;

let home: TestHome;
let colony: ColonyDaemon;
let agent: AgentDaemon;
const web = uniqueName("web");
const stock = uniqueName("stock");

beforeAll(async () => {
  home = makeTestHome();
  colony = await startColony({ home: home.path, config: "pull:\n  interval: 500ms\n" });
  agent = await startAgent({ home: home.path, config: "otlp:\n  grpc:\n    enabled: false\n  http:\n    listen: 127.0.0.1:0\n" });
  await agent.waitUntilConnected();
  const status = await coralJson<{ otlp: { http: string } }>(["agent", "status"], { home: home.path });
  await sendHistory(`http://${status.otlp.http}/v1/traces`);
});
afterAll(async () => {
  for (const resource of [agent, colony, home]) await resource[Symbol.asyncDispose]();
});

interface Span {
  service: string;
  spanId: string;
  parentSpanId: string;
  name: string;
  kind: 2 | 3;
  startMs: number;
  durationMs: number;
}

/** The web service calls the stock service, whose own code takes ten times as long in the last minutes. */
async function sendHistory(endpoint: string): Promise<void> {
  const nowMs = Date.now();
  const traces: { traceId: string; span: Span }[] = [];
  for (let startMs = nowMs - historyMs; startMs < nowMs - 1_000; startMs += 1_500) {
    const traceId = randomBytes(16).toString("hex");
    const [a, b, c] = Array.from({ length: 3 }, () => randomBytes(8).toString("hex")) as [string, string, string];
    const jitterMs = (startMs / 1_500) % 5;
    const workMs = (startMs > nowMs - faultMs ? 200 : 20) + jitterMs;
    const spans: Span[] = [
      { service: web, spanId: a, parentSpanId: "", name: "GET /buy", kind: 2, startMs, durationMs: workMs + 30 },
      { service: web, spanId: b, parentSpanId: a, name: "GET", kind: 3, startMs: startMs + 10, durationMs: workMs + 4 },
      { service: stock, spanId: c, parentSpanId: b, name: "GET /reserve/{id}", kind: 2, startMs: startMs + 12, durationMs: workMs },
    ];
    traces.push(...spans.map((span) => ({ traceId, span })));
  }
  const nano = (ms: number): string => `${BigInt(Math.round(ms * 1_000)) * 1_000n}`;
  const resourceSpans = [web, stock].map((service) => ({
    resource: { attributes: [{ key: "service.name", value: { stringValue: service } }] },
    scopeSpans: [
      {
        spans: traces
          .filter(({ span }) => span.service === service)
          .map(({ traceId, span: { spanId, parentSpanId, name, kind, startMs, durationMs } }) => ({
            traceId,
            spanId,
            parentSpanId,
            name,
            kind,
            startTimeUnixNano: nano(startMs),
            endTimeUnixNano: nano(startMs + durationMs),
            ...(kind === 2 && { attributes: [{ key: "http.route", value: { stringValue: name.split(" ")[1] } }] }),
          })),
      },
    ],
  }));
  const body = JSON.stringify({ resourceSpans });
  const reply = await fetch(endpoint, { method: "POST", headers: { "content-type": "application/json" }, body });
  expect(reply.status).toBe(200);
}

const diagnosis = (args: string[] = []): Promise<DiagnosisResult> => coralJson<DiagnosisResult>(["diagnose", ...args], { home: home.path });

describe("coral diagnose", () => {
  let found: DiagnosisResult;

  it("names the service that became slow, not its caller", async () => {
    found = await waitFor("a diagnosis of the stock service", async () => {
      const one = await diagnosis();
      return one.verdict === "issue" && one.causes[0]?.service === stock && one;
    });
    expect(found.causes[0]?.pointer).toContain("/reserve/{id}");
    expect(found.causes.map(({ service }) => service)).not.toContain(web);
    const { code, stdout } = await runCoral(["diagnose", web], { home: home.path });
    expect(code).toBe(0);
    expect(stdout.split("\n")[0]).toContain(stock);
    expect(stdout).toContain(`path: ${web} → ${stock}`);
  });

  it("shows the evidence", async () => {
    const [id = ""] = found.causes[0]?.evidence.map((one) => one.id) ?? [];
    const { code, stdout } = await runCoral(["evidence", id], { home: home.path });
    expect(code).toBe(0);
    expect(stdout).toContain(stock);
    expect(stdout).toContain(id);
  });

  it("finds no issue before the fault", async () => {
    const before = await diagnosis(["--between", "14m..9m"]);
    expect(before).toMatchObject({ verdict: "no-issue", causes: [] });
  });

  it("opens one incident, for the entry service", async () => {
    const { incidents } = await waitFor("an incident", async () => {
      const one = await coralJson<{ incidents: { service: string; cause: string | null }[] }>(["incidents"], { home: home.path });
      return one.incidents.some(({ cause }) => cause !== null) && one;
    });
    expect(incidents.map(({ service }) => service)).toEqual([web]);
    expect(incidents[0]?.cause).toContain(stock);
  });
});
