import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Clock } from "../../base/clock.ts";
import { bucketOf, fineLayout, sparse } from "../../base/latency-histogram.ts";
import { silentLogger } from "../../base/log.ts";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { type ColonyStore, openColonyStore } from "../../store/colony/index.ts";
import { type Engine, openEngine } from "../../store/engine/index.ts";
import { queryEvents } from "../../store/queries/index.ts";
import { derivedSignals, signals } from "../../store/signals/index.ts";
import { DeploymentWatch } from "./deployment-watch.ts";

const minuteMs = 60_000;
const deployedMs = Date.UTC(2026, 0, 1, 12);
let nowMs: number;
const clock: Clock = { wallMs: () => nowMs, monotonicMs: () => nowMs };

let directory: string;
let engine: Engine;
let store: ColonyStore;
let watch: DeploymentWatch;

beforeEach(async () => {
  places = [];
  nowMs = deployedMs - 120 * minuteMs;
  directory = mkdtempSync(join(tmpdir(), "coral-deployments-"));
  engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 256 * 1024 ** 2, threads: 1, log: silentLogger });
  store = await openColonyStore(engine, {
    file: join(directory, "colony.duckdb"),
    signals: [...signals, ...derivedSignals],
    maxBytes: 1024 ** 3,
    clock,
    log: silentLogger,
  });
  await store.write(async (transaction) => {
    for (const [index, agent] of ["web-1", "web-2"].entries())
      await transaction.run(
        `INSERT INTO internal.sources VALUES (${index + 1}, '${agent}', 'epoch', make_timestamp(0), make_timestamp(0), '{}', '{}')`,
      );
  });
  watch = new DeploymentWatch({ store, settings: () => ({ windowMs: 30 * minuteMs, lagMs: 20_000 }), clock, log: silentLogger });
});

afterEach(async () => {
  await store.close();
  await engine.close();
  rmSync(directory, { recursive: true });
});

const timestamp = (ms: number): string => `make_timestamp(${Math.floor(ms * 1_000)})`;

interface Place {
  agent: string;
  build: string;
  startedMs: number;
  environment?: string;
  command?: string;
}

/** Processes that run from now on; a scan precedes each step. */
let places: Place[] = [];
const running = (next: Place[]): void => {
  places = next;
};

/** Pull number for a time, as with one pull per second. */
const pullAt = (storedMs: number): number => Math.floor((storedMs - deployedMs) / 1_000) + 100_000;

/** Scans of all agents at a time, stored then or later. */
async function scan(atMs: number, storedMs = atMs): Promise<void> {
  await store.write(async (transaction) => {
    for (const [index, { agent, build, startedMs, environment = "{}", command = "" }] of places.entries())
      await transaction.run(
        `INSERT INTO raw.service_instance (source, ingest, stored_at, seq, "time", mono_ms, service, protocol, port, address, pid, start_ticks, netns, named_by, confidence, method, started, build, environment, command_line, user_id, managed)
         VALUES (?, ?, ${timestamp(storedMs)}, 0, ${timestamp(atMs)}, 0, 'api', 'tcp', 8080, '0.0.0.0', ?, ${Math.floor(startedMs / 10) % 1_000_000_000}, 1, 'script', 0.8, 'listening_socket', ${timestamp(startedMs)}, ?, ?, ?, 0, false)`,
        [agent === "web-1" ? 1 : 2, pullAt(storedMs), 100 + index, build, environment, command],
      );
  });
}

interface Load {
  fromMs: number;
  untilMs: number;
  medianUs: number;
  source?: number;
  errorShare?: number;
  table?: "red" | "span_red";
  version?: string;
  /** Arrival time of rows; default: ten seconds after each. */
  storedMs?: number;
}

/** 20 requests of one route every ten seconds. */
async function load(given: Load): Promise<void> {
  const { fromMs, untilMs, medianUs, source = 1, errorShare = 0, table = "red", version = "" } = given;
  const random = new SeededRandom(Math.round(medianUs + fromMs / 1_000));
  const uniform = (): number => (random.word() + 0.5) / 2 ** 32;
  const rows: string[] = [];
  for (let atMs = fromMs; atMs < untilMs; atMs += 10_000) {
    for (const isError of [false, true]) {
      const counts = new Array<number>(fineLayout.bucketCount).fill(0);
      let requests = 0;
      for (let request = 0; request < 20; request++) {
        if (uniform() < errorShare !== isError) continue;
        const us = medianUs * Math.exp(0.4 * Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()));
        counts[bucketOf(fineLayout, us * 1_000)]! += 1;
        requests++;
      }
      if (requests === 0) continue;
      const { lo, counts: kept } = sparse(counts);
      const status = isError ? "500" : "200";
      const storedMs = given.storedMs ?? atMs + 10_000;
      const values = `${source}, ${pullAt(storedMs)}, ${timestamp(storedMs)}, 0, ${timestamp(atMs)}, 0, 'api', 'server', 'http', 'GET', '/things/{id}', '${status}', ${isError}, 10000, ${requests}, ${requests * Math.round(medianUs)}, ${lo}, [${kept.join(", ")}]`;
      rows.push(table === "red" ? `(${values}, false, 80, '', 0, 0, 0, 0, 0, [], 0, [])` : `(${values}, ${requests}, '${version}')`);
    }
  }
  const common = `source, ingest, stored_at, seq, "time", mono_ms, service, role, protocol, method, route, status, is_error, window_ms, requests, duration_us, duration_lo, duration_counts`;
  const more =
    table === "red"
      ? "is_tls, server_port, peer_address, request_bytes, response_bytes, queue_us, queue_samples, queue_lo, queue_counts, first_byte_lo, first_byte_counts"
      : "spans, version";
  await store.write((transaction) => transaction.run(`INSERT INTO raw.${table} (${common}, ${more}) VALUES ${rows.join(", ")}`));
}

async function stepAt(ms: number): Promise<void> {
  nowMs = ms;
  await scan(ms - 3_000);
  await watch.step();
}

const events = async (): Promise<string[]> =>
  (await queryEvents(store, { nowMs: 0, sinceMs: 0, limit: 100, service: "api" }))
    .map(({ kind, message }) => `${kind}: ${message}`)
    .reverse();
const list = () => watch.list({ sinceMs: 86_400_000, limit: 10 });

/** Runs `a` until the deployment, `b` afterwards. */
async function deploy(): Promise<void> {
  const old = deployedMs - 300 * minuteMs;
  running([{ agent: "web-1", build: "aaaa", startedMs: old }]);
  await stepAt(deployedMs - 60 * minuteMs);
  running([{ agent: "web-1", build: "bbbb", startedMs: deployedMs }]);
  await stepAt(deployedMs + 10_000);
}

describe("DeploymentWatch", { timeout: 60_000 }, () => {
  it("reports a slower build at the first comparison with enough data, and only once", async () => {
    await load({ fromMs: deployedMs - 70 * minuteMs, untilMs: deployedMs, medianUs: 10_000 });
    await load({ fromMs: deployedMs, untilMs: deployedMs + 40 * minuteMs, medianUs: 15_000 });
    await deploy();
    expect(await list()).toMatchObject([
      { service: "api", build: "bbbb", previousBuild: "aaaa", foundBy: ["build"], verdict: "not-enough-data" },
    ]);
    await stepAt(deployedMs + 4 * minuteMs);
    const [early] = await list();
    expect(early).toMatchObject({ verdict: "regression", isComplete: false, report: { source: "hooks", afterMs: 2 * minuteMs } });
    for (const minutes of [7, 17, 32, 40]) await stepAt(deployedMs + minutes * minuteMs);
    const [late] = await list();
    expect(late).toMatchObject({ verdict: "regression", isComplete: true, report: { afterMs: 30 * minuteMs, beforeMs: 60 * minuteMs } });
    const p95 = late?.report?.changes.find(({ metric }) => metric === "p95");
    expect(p95?.subject).toBe("GET /things/{id}");
    expect(p95!.after / p95!.before).toBeGreaterThan(1.4);
    expect(p95!.after / p95!.before).toBeLessThan(1.6);
    expect(late?.report?.requestsAfter).toBe(30 * 6 * 20);
    expect(await events()).toEqual([
      "deployment: api was deployed: build bbbb instead of build aaaa",
      expect.stringMatching(/^deployment-regression: api is worse since build bbbb instead of build aaaa: GET \/things\/\{id\} p\d+ /),
    ]);
  });

  it("keeps its verdict when the service goes quiet", async () => {
    await load({ fromMs: deployedMs - 5 * minuteMs, untilMs: deployedMs, medianUs: 10_000 });
    await load({ fromMs: deployedMs, untilMs: deployedMs + 7 * minuteMs, medianUs: 30_000, errorShare: 0.2 });
    await deploy();
    for (const minutes of [4, 7]) await stepAt(deployedMs + minutes * minuteMs);
    expect(await list()).toMatchObject([{ verdict: "regression", isComplete: false }]);
    for (const minutes of [17, 32, 40]) await stepAt(deployedMs + minutes * minuteMs);
    expect(await list()).toMatchObject([{ verdict: "regression", isComplete: true, reason: expect.stringContaining("p50") }]);
    expect((await events()).filter((event) => event.startsWith("deployment-recovered"))).toEqual([]);
  });

  it("reports no change for an equal build, and a regression for one with more errors", async () => {
    await load({ fromMs: deployedMs - 70 * minuteMs, untilMs: deployedMs + 40 * minuteMs, medianUs: 10_000 });
    await deploy();
    await stepAt(deployedMs + 40 * minuteMs);
    expect(await list()).toMatchObject([
      { verdict: "no-change", isComplete: true, reason: expect.stringContaining("no significant change") },
    ]);
    await load({ fromMs: deployedMs + 40 * minuteMs, untilMs: deployedMs + 80 * minuteMs, medianUs: 10_000, errorShare: 0.2 });
    running([{ agent: "web-1", build: "cccc", startedMs: deployedMs + 40 * minuteMs }]);
    await stepAt(deployedMs + 41 * minuteMs);
    await stepAt(deployedMs + 80 * minuteMs);
    const [newest] = await list();
    expect(newest).toMatchObject({ build: "cccc", previousBuild: "bbbb", verdict: "regression" });
    expect(newest?.report?.changes[0]).toMatchObject({ metric: "errors", before: 0 });
    // The baseline begins at the previous deployment.
    expect(newest?.report?.beforeMs).toBeLessThan(40 * minuteMs);
  });

  it("compares only hosts with the new build, each since it got the build", async () => {
    const old = deployedMs - 300 * minuteMs;
    // The second host is always slow and gets the new build ten minutes later: it must not affect the verdict.
    for (const [source, medianUs] of [
      [1, 10_000],
      [2, 40_000],
    ] as const)
      await load({ fromMs: deployedMs - 70 * minuteMs, untilMs: deployedMs + 50 * minuteMs, medianUs, source });
    running([
      { agent: "web-1", build: "aaaa", startedMs: old },
      { agent: "web-2", build: "aaaa", startedMs: old },
    ]);
    await stepAt(deployedMs - 60 * minuteMs);
    running([
      { agent: "web-1", build: "bbbb", startedMs: deployedMs },
      { agent: "web-2", build: "aaaa", startedMs: old },
    ]);
    await stepAt(deployedMs + 10_000);
    expect((await list())[0]?.agents).toEqual(["web-1"]);
    await stepAt(deployedMs + 4 * minuteMs);
    expect((await list())[0]).toMatchObject({ verdict: "no-change", report: { requestsBefore: 60 * 6 * 20 } });
    running([
      { agent: "web-1", build: "bbbb", startedMs: deployedMs },
      { agent: "web-2", build: "bbbb", startedMs: deployedMs + 10 * minuteMs },
    ]);
    await stepAt(deployedMs + 11 * minuteMs);
    await stepAt(deployedMs + 45 * minuteMs);
    expect(await list()).toMatchObject([{ agents: ["web-1", "web-2"], verdict: "no-change", report: { requestsAfter: 2 * 30 * 6 * 20 } }]);
  });

  it("detects a version change in spans, and merges a mark into the same deployment", async () => {
    await load({ fromMs: deployedMs - 60 * minuteMs, untilMs: deployedMs, medianUs: 5_000, table: "span_red", version: "1.0" });
    await stepAt(deployedMs - minuteMs);
    await load({ fromMs: deployedMs, untilMs: deployedMs + 33 * minuteMs, medianUs: 9_000, table: "span_red", version: "1.1" });
    nowMs = deployedMs + 20_000;
    const marked = await watch.mark({ service: "api", note: "cache switched off", agoMs: 0 }, "token:ci");
    expect(marked).toMatchObject({ isNew: true, deployment: { foundBy: ["mark"], markedBy: "token:ci" } });
    await stepAt(deployedMs + 30_000);
    await stepAt(deployedMs + 33 * minuteMs);
    expect(await list()).toMatchObject([
      {
        foundBy: ["mark", "version"],
        version: "1.1",
        previousVersion: "1.0",
        note: "cache switched off",
        verdict: "regression",
        report: { source: "spans" },
      },
    ]);
    expect((await events()).filter((line) => line.startsWith("deployment:"))).toHaveLength(1);
  });

  it("follows a rollout: builds side by side with their shares, then one, each event once", async () => {
    const old = deployedMs - 300 * minuteMs;
    for (const source of [1, 2])
      await load({ fromMs: deployedMs - 20 * minuteMs, untilMs: deployedMs + 20 * minuteMs, medianUs: 10_000, source });
    running([
      { agent: "web-1", build: "aaaa", startedMs: old },
      { agent: "web-2", build: "aaaa", startedMs: old },
    ]);
    await stepAt(deployedMs - 10 * minuteMs);
    running([
      { agent: "web-1", build: "bbbb", startedMs: deployedMs },
      { agent: "web-2", build: "aaaa", startedMs: old },
    ]);
    for (const seconds of [10, 20, 300]) await stepAt(deployedMs + seconds * 1_000);
    const [rolling] = await list();
    expect(rolling).toMatchObject({
      state: "rolling",
      endedAt: null,
      shares: [
        { build: "bbbb", instances: 1, agents: 1 },
        { build: "aaaa", instances: 1, agents: 1 },
      ],
    });
    // Each host runs one build, so its requests are that build's.
    expect(rolling!.shares.map(({ requests }) => requests)).toEqual([expect.any(Number), expect.any(Number)]);
    running([
      { agent: "web-1", build: "bbbb", startedMs: deployedMs },
      { agent: "web-2", build: "bbbb", startedMs: deployedMs + 6 * minuteMs },
    ]);
    for (const minutes of [7, 8]) await stepAt(deployedMs + minutes * minuteMs);
    expect(await list()).toMatchObject([
      { state: "complete", shares: [], agents: ["web-1", "web-2"], endedAt: new Date(deployedMs + 5 * minuteMs - 3_000).toISOString() },
    ]);
    expect(await events()).toEqual([
      "deployment: api is rolling out build bbbb: build bbbb on 1 of 2 instances; build aaaa on 1",
      "deployment-complete: api finished its rollout after 4m 57s: build bbbb instead of build aaaa",
    ]);
  });

  it("turns builds that stay side by side into variants, and reports no deployment for earlier variants", async () => {
    const old = deployedMs - 300 * minuteMs;
    running([{ agent: "web-1", build: "aaaa", startedMs: old }]);
    await stepAt(deployedMs - 200 * minuteMs);
    // Another host is first seen with a build that has run there for two hours.
    running([...places, { agent: "web-2", build: "bbbb", startedMs: deployedMs - 120 * minuteMs }]);
    await stepAt(deployedMs);
    expect(await list()).toEqual([]);
    running([
      ...places.slice(0, 1),
      { agent: "web-2", build: "cccc", startedMs: deployedMs + minuteMs },
      { agent: "web-2", build: "bbbb", startedMs: deployedMs - 120 * minuteMs },
    ]);
    await stepAt(deployedMs + 2 * minuteMs);
    expect((await list()).map(({ build, state }) => `${build} ${state}`)).toEqual(["cccc rolling"]);
    await stepAt(deployedMs + 70 * minuteMs);
    expect((await list()).map(({ build, state }) => `${build} ${state}`)).toEqual(["cccc variant"]);
    expect((await events()).at(-1)).toContain("deployment-variant: api runs builds permanently side by side");
  });

  it("writes messages with the label of a service", async () => {
    watch = new DeploymentWatch({
      store,
      settings: () => ({ windowMs: 30 * minuteMs, lagMs: 20_000 }),
      clock,
      log: silentLogger,
      names: () => Promise.resolve({ labelOf: (service) => `label of ${service}` }),
    });
    await deploy();
    expect(await events()).toEqual(["deployment: label of api was deployed: build bbbb instead of build aaaa"]);
  });

  it("dates a deployment that is pulled later by its own time, and judges it at once", async () => {
    running([{ agent: "web-1", build: "aaaa", startedMs: deployedMs - 300 * minuteMs }]);
    await load({ fromMs: deployedMs - 70 * minuteMs, untilMs: deployedMs - minuteMs, medianUs: 10_000 });
    await stepAt(deployedMs - minuteMs);
    // Disconnected for 40 minutes, then everything arrives at once. Another agent continues meanwhile.
    const storedMs = deployedMs + 40 * minuteMs;
    running([{ agent: "web-1", build: "bbbb", startedMs: deployedMs }]);
    await scan(deployedMs + 10_000, storedMs);
    await load({ fromMs: deployedMs - minuteMs, untilMs: deployedMs, medianUs: 10_000, storedMs });
    await load({ fromMs: deployedMs, untilMs: storedMs, medianUs: 20_000, storedMs });
    for (const seconds of [5, 15, 25]) await stepAt(storedMs + seconds * 1_000);
    expect(await list()).toMatchObject([{ at: new Date(deployedMs).toISOString(), verdict: "regression", isComplete: true }]);
  });

  it("dates versions in late spans by the spans, not by their arrival", async () => {
    await load({ fromMs: deployedMs - 60 * minuteMs, untilMs: deployedMs, medianUs: 5_000, table: "span_red", version: "1.0" });
    await stepAt(deployedMs);
    const storedMs = deployedMs + 25 * minuteMs;
    await load({
      fromMs: deployedMs + minuteMs,
      untilMs: deployedMs + 20 * minuteMs,
      medianUs: 5_000,
      table: "span_red",
      version: "1.1",
      storedMs,
    });
    await stepAt(storedMs + 10_000);
    expect(await list()).toMatchObject([{ version: "1.1", previousVersion: "1.0", at: new Date(deployedMs + minuteMs).toISOString() }]);
  });

  it("compares again when rows of the compared time arrive later, even after the last comparison", async () => {
    await load({ fromMs: deployedMs - 70 * minuteMs, untilMs: deployedMs, medianUs: 10_000 });
    await load({ fromMs: deployedMs, untilMs: deployedMs + 5 * minuteMs, medianUs: 10_000 });
    await deploy();
    for (const minutes of [4, 7, 17, 32]) await stepAt(deployedMs + minutes * minuteMs);
    expect(await list()).toMatchObject([{ verdict: "no-change", isComplete: true }]);
    const storedMs = deployedMs + 90 * minuteMs;
    await load({ fromMs: deployedMs + 5 * minuteMs, untilMs: deployedMs + 35 * minuteMs, medianUs: 10_000, errorShare: 0.3, storedMs });
    await stepAt(storedMs + 10_000);
    expect(await list()).toMatchObject([{ verdict: "regression", isComplete: true, report: { afterMs: 30 * minuteMs } }]);
    const reported = await events();
    await stepAt(storedMs + 20_000);
    expect(await events()).toEqual(reported);
    expect(reported.filter((event) => event.startsWith("deployment-regression"))).toHaveLength(1);
  });

  it("gives a deployment its golden id, which stored events refer to", async () => {
    nowMs = deployedMs;
    const { deployment } = await watch.mark({ service: "api", version: "1.4.2", note: "", agoMs: 0 }, "token:ci");
    expect(deployment.id).toBe("dep-1565680659");
  });

  it("resumes after a restart, and reports when there is nothing to compare", async () => {
    await deploy();
    watch = new DeploymentWatch({ store, settings: () => ({ windowMs: 30 * minuteMs, lagMs: 20_000 }), clock, log: silentLogger });
    await stepAt(deployedMs + 40 * minuteMs);
    expect(await list()).toMatchObject([
      { verdict: "not-enough-data", isComplete: true, reason: "no requests were seen, neither by hooks nor in spans" },
    ]);
    await stepAt(deployedMs + 41 * minuteMs);
    expect(await list()).toHaveLength(1);
  });

  it.each([
    [
      "SERVICE_VERSION of the environment",
      { environment: '{"SERVICE_VERSION":"1.0"}' },
      { environment: '{"SERVICE_VERSION":"1.1"}' },
      "1.0 → 1.1",
    ],
    [
      "service.version of the resource",
      { environment: '{"OTEL_RESOURCE_ATTRIBUTES":"a=b,service.version=1.0"}' },
      { environment: '{"OTEL_RESOURCE_ATTRIBUTES":"a=b,service.version=1.1,c=d"}' },
      "1.0 → 1.1",
    ],
    [
      "the name of an archive",
      { command: "java -Xmx1g -jar /opt/billing-1.4.1.jar" },
      { command: "java -Xmx1g -jar /opt/billing-1.4.2-rc.1.jar --port 1" },
      "1.4.1 → 1.4.2-rc.1",
    ],
    ["the folder of a release", { command: "node /srv/releases/41/server.js" }, { command: "node /srv/releases/42/server.js" }, "41 → 42"],
    ["nothing", { command: "node /srv/server.js 1.0" }, { command: "node /srv/server.js 1.1" }, undefined],
  ])("detects versions of the same binary by %s", async (_what, old, fresh, wanted) => {
    running([{ agent: "web-1", build: "node", startedMs: deployedMs - 300 * minuteMs, ...old }]);
    await stepAt(deployedMs - 60 * minuteMs);
    running([{ agent: "web-1", build: "node", startedMs: deployedMs, ...fresh }]);
    await stepAt(deployedMs + 10_000);
    const [found] = await list();
    expect(found && `${found.previousVersion} → ${found.version}`).toBe(wanted);
    if (found) expect(found.foundBy).toEqual(["version"]);
  });

  it("lists new egress and new error patterns", async () => {
    await load({ fromMs: deployedMs - 70 * minuteMs, untilMs: deployedMs + 40 * minuteMs, medianUs: 10_000 });
    await store.write(async (transaction) => {
      const log = (ms: number, pattern: string, template: string, severity: string): Promise<number> =>
        transaction.run(
          `INSERT INTO raw.log_pattern (source, ingest, stored_at, seq, "time", mono_ms, service, pattern, template, severity, records, is_new)
           VALUES (1, 1, ${timestamp(ms)}, 0, ${timestamp(ms)}, 0, 'api', '${pattern}', '${template}', '${severity}', 7, true)`,
        );
      await log(deployedMs - 30 * minuteMs, "p1", "old failure <num>", "error");
      await log(deployedMs + 5 * minuteMs, "p1", "old failure <num>", "error");
      await log(deployedMs + 5 * minuteMs, "p2", "new failure <num>", "error");
      await log(deployedMs + 5 * minuteMs, "p3", "all is well", "info");
      await transaction.run(
        `INSERT INTO registry.events VALUES (${timestamp(deployedMs + minuteMs)}, 'egress-new', 'web-1', 'x', '{"service": "api", "name": "s3.example.com", "port": 443}')`,
      );
    });
    await deploy();
    await stepAt(deployedMs + 40 * minuteMs);
    expect((await list())[0]?.report).toMatchObject({
      newEgress: ["s3.example.com:443"],
      newErrors: [{ template: "new failure <num>", severity: "error", records: 7 }],
    });
  });
});
