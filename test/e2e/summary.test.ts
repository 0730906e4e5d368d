/** A program that only sends spans: its health, the deployment of a new version, and the regression. */

import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { DeploymentList, SummaryResult } from "../../src/tools/index.ts";
import { type AgentDaemon, type ColonyDaemon, startAgent, startColony } from "../support/daemon.ts";
import { coralJson, runCoral } from "../support/run-coral.ts";
import { makeTestHome, type TestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

let home: TestHome;
let colony: ColonyDaemon;
let agent: AgentDaemon;
let endpoint: string;
const service = "lambda-prices";

// New daemons with each test: a deployment of an earlier test would count too.
beforeEach(async () => {
  home = makeTestHome();
  colony = await startColony({ home: home.path, config: "pull:\n  interval: 500ms\ndeployments:\n  window: 1m\n" });
  const config = "otlp:\n  grpc:\n    enabled: false\n  http:\n    listen: 127.0.0.1:0\n";
  agent = await startAgent({ home: home.path, config });
  await agent.waitUntilConnected();
  const status = await coralJson<{ otlp: { http: string } }>(["agent", "status"], { home: home.path });
  endpoint = `http://${status.otlp.http}/v1/traces`;
});
afterEach(async () => {
  for (const resource of [agent, colony, home]) await resource?.[Symbol.asyncDispose]();
});

/** Sends twenty requests that ended just before `atMs`; every `failEach`-th failed. */
async function send(version: string, atMs: number, durationMs: number, failEach = 0): Promise<void> {
  const nano = (ms: number): string => `${BigInt(Math.round(ms * 1_000)) * 1_000n}`;
  const spans = Array.from({ length: 20 }, (_, index) => {
    const isError = failEach > 0 && index % failEach === 0;
    // Plus or minus ten percent, deterministic.
    const tookMs = durationMs * (0.9 + (index / 20) * 0.2);
    return {
      traceId: randomBytes(16).toString("hex"),
      spanId: randomBytes(8).toString("hex"),
      name: "GET /prices/{id}",
      kind: 2,
      startTimeUnixNano: nano(atMs - tookMs - index),
      endTimeUnixNano: nano(atMs - index),
      attributes: [
        { key: "http.route", value: { stringValue: "/prices/{id}" } },
        { key: "http.request.method", value: { stringValue: "GET" } },
        { key: "http.response.status_code", value: { intValue: isError ? "500" : "200" } },
      ],
      status: isError ? { code: 2 } : {},
    };
  });
  const resource = {
    attributes: [
      { key: "service.name", value: { stringValue: service } },
      { key: "service.version", value: { stringValue: version } },
    ],
  };
  const body = JSON.stringify({ resourceSpans: [{ resource, scopeSpans: [{ scope: { name: "test" }, spans }] }] });
  const reply = await fetch(endpoint, { method: "POST", headers: { "content-type": "application/json" }, body });
  if (reply.status !== 200) throw new Error(`the receiver returned HTTP ${reply.status}`);
}

/** Only of this service: others on the host may be deployed, too. */
const deployments = async (): Promise<DeploymentList["deployments"]> =>
  (await colony.tool<DeploymentList>("coral_query_deployments", { service, since: "1h" })).deployments;

describe("a program that sends spans", () => {
  it("has a health status and a deployment with a regression", async () => {
    // Spans have their own times, so both versions can have a history: all comparisons of the new one are due at once.
    const deployedMs = Date.now() - 70_000;
    for (let beforeMs = 140_000; beforeMs > 0; beforeMs -= 1_000) await send("1.0", deployedMs - beforeMs, 10);
    const known = await waitFor("its requests to be counted", async () => {
      const { services } = await colony.tool<SummaryResult>("coral_query_summary", { since: "5m" });
      const one = services.find((candidate) => candidate.service === service);
      return (one?.requests?.requests ?? 0) >= 140 * 20 && one;
    });
    expect(known).toMatchObject({ health: "ok", requests: { source: "spans", role: "server", errorRatio: 0 } });
    expect(known.requests?.p95Us).toBeGreaterThan(9_500);
    expect(known.requests?.p95Us).toBeLessThan(11_500);
    expect(await deployments()).toEqual([]);

    for (let afterMs = 1_000; deployedMs + afterMs < Date.now(); afterMs += 1_000) await send("1.1", deployedMs + afterMs, 25, 4);
    let isOn = true;
    const sending = (async () => {
      while (isOn) {
        await send("1.1", Date.now(), 25, 4);
        await new Promise((done) => setTimeout(done, 500));
      }
    })();
    try {
      let seen: DeploymentList["deployments"] = [];
      const [judged] = await waitFor(
        "the deployment to be found worse",
        async () => {
          seen = await deployments();
          return seen[0]?.verdict === "regression" && seen;
        },
        { timeoutMs: 150_000, intervalMs: 500, details: () => JSON.stringify(seen, undefined, 1) },
      );
      expect(judged).toMatchObject({ service, foundBy: ["version"], version: "1.1", previousVersion: "1.0", report: { source: "spans" } });
      const changes = judged?.report?.changes.map(({ metric, subject, outcome }) => `${metric} ${outcome} ${subject}`);
      expect(changes).toEqual(
        expect.arrayContaining(["errors worse GET /prices/{id}", "p50 worse GET /prices/{id}", "p95 worse GET /prices/{id}"]),
      );
    } finally {
      isOn = false;
      await sending;
    }
    const marked = await runCoral(["deploy", "mark", service, "--version", "1.1", "--note", "cache off"], { home: home.path });
    expect(marked.stderr).toContain("had detected this deployment");
    const list = await runCoral(["query", "deployments", service], { home: home.path });
    expect(list.stdout).toContain("1.1 ← 1.0 (cache off)");
    expect(list.stdout).toMatch(/worse +GET \/prices\/\{id\} +errors +0% +25%/);
    const page = await runCoral(["query", "summary", service, "--since", "1m"], { home: home.path });
    expect(page.stdout).toContain("FROM SPANS");
    expect(page.stdout).toContain("worse since 1.1 was deployed");
    expect(page.stdout).toMatch(/coral query deployments lambda-prices/);
    const all = await runCoral(["query", "summary"], { home: home.path });
    expect(all.stdout).toMatch(/lambda-prices +(?:degraded|critical)/);
  });
});
