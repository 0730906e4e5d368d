/** Health endpoints, metrics and logs of both daemons. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AgentDaemon, type ColonyDaemon, spawnNode, startAgent, startColony } from "../support/daemon.ts";
import { coralFile, coralJson, runCoral } from "../support/run-coral.ts";
import { makeTestHome, type TestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

let home: TestHome;
let colony: ColonyDaemon;
let agent: AgentDaemon;
let agentUrl: string;

beforeAll(async () => {
  home = makeTestHome();
  colony = await startColony({ home: home.path, config: "pull:\n  interval: 500ms\n" });
  agent = await startAgent({ home: home.path });
  await agent.waitUntilConnected();
  agentUrl = String(agent.logLines().find((line) => line["url"] !== undefined)?.["url"]);
});
afterAll(async () => {
  for (const resource of [agent, colony, home]) await resource[Symbol.asyncDispose]();
});

/** Parses the Prometheus text format; fails on a malformed line. */
function parseMetrics(text: string): Map<string, number> {
  const samples = new Map<string, number>();
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const match = /^([a-zA-Z_:][\w:]*(?:\{[^}]*\})?) (\S+)$/.exec(line);
    expect(match, line).not.toBeNull();
    samples.set(match?.[1] ?? "", Number(match?.[2]));
  }
  return samples;
}

describe("the daemons' ports", () => {
  it.each(["/healthz", "/readyz"])("%s of both returns ok", async (path) => {
    for (const at of [`http://${colony.endpoint}`, agentUrl]) {
      const reply = await fetch(at + path);
      expect(reply.status, at).toBe(200);
      expect((await reply.text()).trim()).toMatch(/ok|ready/);
    }
  });

  it("/metrics of the colony counts agents, rows, lag and tool calls", async () => {
    await waitFor("stored rows", async () => (parseMetrics(await colony.metrics()).get("coral_rows_stored_total") ?? 0) > 0);
    await coralJson(["status"], { home: home.path });
    const reply = await fetch(`http://${colony.endpoint}/metrics`);
    expect(reply.headers.get("content-type")).toContain("text/plain; version=0.0.4");
    const samples = parseMetrics(await reply.text());
    expect(samples.get('coral_agents{health="healthy"}')).toBe(1);
    expect(samples.get("coral_rows_lost_total")).toBe(0);
    expect(samples.get("coral_pull_lag_seconds_count")).toBeGreaterThan(0);
    expect(samples.get("coral_store_used_bytes")).toBeGreaterThan(0);
    expect(samples.get('coral_tool_calls_total{tool="coral_get_status",outcome="ok"}')).toBeGreaterThan(0);
    expect(samples.get("process_resident_memory_bytes")).toBeGreaterThan(0);
  });

  it("/metrics of the agent counts rows and reports whether it is connected", async () => {
    const text = await (await fetch(`${agentUrl}/metrics`)).text();
    const samples = parseMetrics(text);
    const own = [...samples.keys()].filter((name) => name.startsWith("coral_"));
    expect(own.length).toBeGreaterThan(2);
    expect(samples.get("coral_store_used_bytes")).toBeGreaterThan(0);
    expect(text).toMatch(/^# HELP coral_/m);
    expect(text).toMatch(/^# TYPE coral_/m);
  });

  it("serve nothing else to unauthenticated clients", async () => {
    expect((await fetch(`${agentUrl}/v1/status`)).status).toBe(403);
    expect((await fetch(`${agentUrl}/nothing`)).status).toBe(404);
    expect((await fetch(`http://${colony.endpoint}/nothing`)).status).toBe(404);
  });
});

describe("logs", () => {
  it("consist of JSON lines with --log-format json", () => {
    for (const daemon of [colony, agent]) {
      for (const line of daemon.output.trimEnd().split("\n")) {
        expect(JSON.parse(line)).toMatchObject({
          at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
          level: expect.stringMatching(/^(?:debug|info|warn|error)$/),
          scope: expect.stringMatching(/^\w+/),
          message: expect.any(String),
        });
      }
    }
  });

  it("are readable lines in text format; level by flag > environment > config", async () => {
    await using other = makeTestHome();
    await runCoral(["init", "test"], { home: other.path });
    const env = { CORAL_LOG_LEVEL: "error", CORAL_LOG_FORMAT: "text" };
    {
      await using quiet = spawnNode("colony", [coralFile, "colony", "start", "--port", "0"], other.path, env);
      await waitFor("the colony", async () => (await runCoral(["colony", "status"], { home: other.path })).code === 0);
      await quiet.stop();
      expect(quiet.output).toBe("");
    }
    await using loud = spawnNode("colony", [coralFile, "colony", "start", "--port", "0", "--log-level", "info"], other.path, env);
    await loud.waitForOutput(/^\d\d:\d\d:\d\d INFO {2}colony: Colony test-dev-\w{6} is ready endpoint=127\.0\.0\.1:\d+/m);
    expect(loud.output).not.toContain("\u001b[");
  });
});
