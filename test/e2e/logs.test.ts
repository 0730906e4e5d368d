/** Log records, from a program and from a file to the command line. */

import { randomBytes } from "node:crypto";
import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { LogResult } from "../../src/tools/index.ts";
import { type AgentDaemon, type ColonyDaemon, startAgent, startColony } from "../support/daemon.ts";
import { coralJson, runCoral } from "../support/run-coral.ts";
import { makeTestHome, type TestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

let home: TestHome;
let colony: ColonyDaemon;
let agent: AgentDaemon;
let file: string;
let tries = 0;

beforeAll(async () => {
  home = makeTestHome();
  file = join(home.path, "worker.log");
  writeFileSync(file, "INFO before the agent\n");
  colony = await startColony({ home: home.path, config: "pull:\n  interval: 500ms\n" });
  const otlp = "otlp:\n  grpc:\n    enabled: false\n  http:\n    listen: 127.0.0.1:0\n";
  agent = await startAgent({ home: home.path, config: `${otlp}logs:\n  - service: worker\n    files: ["${file}"]\n` });
  await agent.waitUntilConnected();
});
afterAll(async () => {
  for (const resource of [agent, colony, home]) await resource[Symbol.asyncDispose]();
});

const logs = (...args: string[]): Promise<LogResult> => coralJson<LogResult>(["query", "logs", ...args], { home: home.path });

describe("coral query logs", () => {
  // New names with each run: records of an earlier run are still stored.
  it("shows the records that a program sent", async () => {
    const [shop, traceId] = [`shop-${tries++}`, randomBytes(16).toString("hex")];
    const { otlp } = await coralJson<{ otlp: { http: string } }>(["agent", "status"], { home: home.path });
    const logRecords = Array.from({ length: 20 }, (_, index) => ({
      timeUnixNano: `${Date.now() + index}000000`,
      severityNumber: index === 7 ? 17 : 9,
      body: { stringValue: index === 7 ? "payment declined token=abc123def456" : `order ${index} paid` },
      ...(index === 7 ? { traceId } : {}),
    }));
    const resource = { attributes: [{ key: "service.name", value: { stringValue: shop } }] };
    const body = JSON.stringify({ resourceLogs: [{ resource, scopeLogs: [{ logRecords }] }] });
    const reply = await fetch(`http://${otlp.http}/v1/logs`, { method: "POST", headers: { "content-type": "application/json" }, body });
    expect(reply.status).toBe(200);
    await waitFor("the records at the colony", async () => (await logs(shop)).records.length === 20);
    const failed = await logs(shop, "--level", "warn");
    expect(failed.records).toMatchObject([{ severity: "error", body: "payment declined token=***", traceId }]);
    expect((await logs("--trace-id", traceId)).records).toHaveLength(1);
    const { patterns } = await logs(shop, "--by", "pattern");
    expect(patterns.map(({ records }) => records)).toEqual([19, 1]);
    const [common] = patterns;
    expect((await logs(shop, "--pattern", common?.pattern ?? "none")).records).toHaveLength(19);
    const { stdout } = await runCoral(["query", "logs", shop, "--grep", "DECLINED"], { home: home.path });
    expect(stdout).toMatch(/^\d\d:\d\d:\d\d\.\d{3} ERROR payment declined token=\*\*\*\n$/);
  });

  it("shows new lines of a configured file", async () => {
    const mark = `try ${tries++}`;
    appendFileSync(
      file,
      `2026-01-01T00:00:00Z ERROR too old for the question\nERROR ${mark}: disk is full\n  at write\nWARN ${mark}: slow\n`,
    );
    await waitFor("the lines at the colony", async () => (await logs("worker", "--grep", mark)).records.length === 2);
    const { records } = await logs("worker", "--grep", mark);
    expect(records.map(({ body, severity }) => [severity, body]).sort()).toEqual([
      ["error", `ERROR ${mark}: disk is full\n  at write`],
      ["warn", `WARN ${mark}: slow`],
    ]);
    expect((await logs("worker", "--grep", "before the agent")).records).toEqual([]);
  });
});
