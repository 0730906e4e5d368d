import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { createLogger, silentLogger } from "../../base/log.ts";
import { Histogram } from "../../base/metrics.ts";
import type { ColonyDiscoveryConfig } from "../../config/index.ts";
import { type AgentStore, openAgentStore } from "../../store/agent/index.ts";
import { type ColonyStore, openColonyStore } from "../../store/colony/index.ts";
import { type Engine, openEngine } from "../../store/engine/index.ts";
import { queryEdges, queryServices } from "../../store/queries/index.ts";
import { connection, type RowOf, serviceInstance, signals } from "../../store/signals/index.ts";
import { DiscoveryLoop } from "./discovery-loop.ts";
import type { EndpointName, EndpointNames } from "./endpoint-names/endpoint-names.ts";

const mebibyte = 1024 ** 2;
const config: ColonyDiscoveryConfig = {
  intervalMs: 20,
  retentionMs: 86_400_000,
  stalenessThresholdMs: 3_600_000,
  correlationWindowMs: 5_000,
  externalResolution: {
    enabled: true,
    reverseDns: true,
    dnsServers: [],
    dnsCacheTtlMs: 3_600_000,
    dnsTimeoutMs: 1_000,
    privateAddresses: true,
    cloudProviderDetection: true,
  },
  autoPromotion: { enabled: false, minConfidence: 0.9, minObservationTimeMs: 0 },
};

/** Resolves an address after the first request for it. */
class SlowNames implements EndpointNames {
  readonly requested: string[] = [];
  readonly known = new Map<string, EndpointName>();

  nameOf(address: string): EndpointName | undefined {
    return this.known.get(address);
  }

  request(addresses: readonly string[]): void {
    this.requested.push(...addresses);
    for (const address of addresses) {
      setTimeout(
        () => this.known.set(address, { name: "s3.example.com", method: "reverse_dns", confidence: 0.9, expiresAtMs: Date.now() + 60_000 }),
        30,
      );
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

let directory: string;
let engine: Engine;
let colony: ColonyStore;
let agent: AgentStore;
let names: SlowNames;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "coral-discovery-"));
  engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 256 * mebibyte, threads: 1, log: silentLogger });
  const options = { signals, maxBytes: 64 * mebibyte, clock: systemClock, log: silentLogger };
  colony = await openColonyStore(engine, { file: join(directory, "colony.duckdb"), ...options });
  agent = await openAgentStore(engine, { file: join(directory, "agent.duckdb"), ...options });
  names = new SlowNames();
});

afterEach(async () => {
  await engine.close();
  rmSync(directory, { recursive: true });
});

/** An agent's rows of a service that calls S3, stored as by a pull. */
async function report(): Promise<void> {
  const at = Date.now() * 1_000;
  const time = { at, mono_ms: at / 1_000 };
  const instance: RowOf<typeof serviceInstance.columns> = {
    ...time,
    ...{
      service: "api",
      name: null,
      origin: null,
      qualifiers: null,
      aliases: null,
      named_by: "pattern",
      confidence: 0.95,
      method: "listening_socket",
      protocol: "tcp",
      address: "0.0.0.0",
      port: 8080,
    },
    ...{
      pid: 1,
      start_ticks: 1,
      started: null,
      exe: null,
      build: null,
      build_kind: null,
      command_line: null,
      environment: null,
      user_id: 0,
    },
    ...{ user_name: null, cgroup: null, container_id: null, container_name: null, unit: null, netns: 1, addresses: '["10.0.0.1"]' },
    ...{ managed: false, health: null, health_detail: null },
  };
  const call: RowOf<typeof connection.columns> = {
    ...time,
    ...{
      role: "client",
      service: "api",
      pid: 1,
      start_ticks: 1,
      netns: 1,
      attribution: "process_fd",
      protocol: "tcp",
      client_address: "10.0.0.1",
    },
    ...{ client_port: 5_000, server_address: "52.94.0.1", server_port: 443, state: "open", first_seen: at, last_seen: at, connections: 1 },
    ...{ bytes_sent: 1, bytes_received: 1, rtt_us: 1, retransmits: 0, refused: null, reset: null, timed_out: null },
  };
  await agent.append(serviceInstance, [instance]);
  await agent.append(connection, [call]);
  const after = colony.checkpoints("node1", agent.epoch).afterSeq;
  const slices = await Promise.all(
    ["service_instance", "connection"].map((signal) =>
      agent.readAfter(signal, after.get(signal) ?? 0, { maxRows: 100, maxBytes: mebibyte }),
    ),
  );
  const [outcome] = await colony.applyPulls([{ agentId: "node1", epoch: agent.epoch, slices, losses: [] }]);
  expect(outcome?.error).toBeUndefined();
}

const metrics = { discoveryCycle: new Histogram([1]) };

function loopOf(log = silentLogger, store = colony, settings = config): DiscoveryLoop {
  return new DiscoveryLoop({ store, config: () => settings, names, clock: systemClock, log, metrics });
}

async function edges() {
  return (await queryEdges(colony, { sinceMs: 3_600_000, nowMs: Date.now(), database: colony.database.name })).edges;
}

describe("DiscoveryLoop", () => {
  it("derives services and edges from pulled rows, and names external addresses", async () => {
    await report();
    const stop = new AbortController();
    const running = loopOf().run(stop.signal);
    await vi.waitFor(async () => expect((await edges())[0]?.server.resolved?.name).toBe("s3.example.com"), { timeout: 10_000 });
    expect((await queryServices(colony)).map(({ service }) => service)).toEqual(["api"]);
    expect(new Set(names.requested)).toEqual(new Set(["52.94.0.1"]));
    stop.abort();
    await running;
  });

  it("applies changed settings with the next cycle", async () => {
    const settings = structuredClone(config);
    const loop = loopOf(silentLogger, colony, settings);
    await report();
    await loop.catchUp();
    expect((await queryServices(colony))[0]?.status).toBe("discovered");
    settings.autoPromotion = { enabled: true, minConfidence: 0.9, minObservationTimeMs: 0 };
    const later = new DiscoveryLoop({
      store: colony,
      config: () => settings,
      names,
      clock: systemClock,
      log: silentLogger,
      metrics,
    });
    await later.catchUp();
    expect((await queryServices(colony))[0]?.status).toBe("managed");
  });

  it("runs the next cycle at once when woken", async () => {
    const stop = new AbortController();
    let now = 0;
    const clock = { ...systemClock, wallMs: () => systemClock.wallMs(), monotonicMs: () => now++ };
    const settings = { ...config, intervalMs: 600_000 };
    const loop = new DiscoveryLoop({ store: colony, config: () => settings, names, clock, log: silentLogger, metrics });
    const running = loop.run(stop.signal);
    await vi.waitFor(async () => expect(await queryServices(colony)).toEqual([]));
    await report();
    await vi.waitFor(async () => {
      loop.wake();
      expect((await queryServices(colony)).map(({ service }) => service)).toEqual(["api"]);
    });
    stop.abort();
    await running;
  });

  it("catchUp() runs a cycle when the loop is late, but not right after one", async () => {
    await report();
    const loop = loopOf();
    await loop.catchUp();
    expect(await edges()).toHaveLength(1);
    const write = vi.spyOn(colony, "write");
    await loop.catchUp();
    expect(write).not.toHaveBeenCalled();
  });

  it("runs every sixth step while no reports arrive, and the next one when some do", async () => {
    let ingest = 5;
    let steps = "";
    const store = Object.create(colony, {
      database: { value: colony.database },
      query: { value: colony.query.bind(colony) },
      lastIngestOf: {
        value: () => {
          steps += "?";
          return ingest;
        },
      },
      write: {
        value: async (work: Parameters<ColonyStore["write"]>[0]) => {
          steps += "!";
          // Rows arrive while the second step runs.
          if (steps.split("!").length === 3) ingest++;
          return await colony.write(work);
        },
      },
    }) as ColonyStore;
    const loop = loopOf(silentLogger, store);
    const stop = new AbortController();
    const running = loop.run(stop.signal);
    await vi.waitFor(() => expect(steps.split("!").length).toBeGreaterThan(4));
    stop.abort();
    await running;
    // One look before each step, and one more by a step that runs.
    expect(steps).toMatch(/^\?\?!\?{7}!\?\?!\?{7}!/);
  });

  it("reports a failure once, continues, and does not block queries", async () => {
    const lines: string[] = [];
    const log = createLogger("test", "info", ({ level, message }) => lines.push(`${level} ${message}`));
    let isBroken = true;
    const store = Object.create(colony, {
      database: { value: colony.database },
      query: { value: colony.query.bind(colony) },
      lastIngestOf: { value: colony.lastIngestOf.bind(colony) },
      write: {
        value: (work: Parameters<ColonyStore["write"]>[0]) => (isBroken ? Promise.reject(new Error("no space left")) : colony.write(work)),
      },
    }) as ColonyStore;
    const loop = loopOf(log, store);
    await loop.catchUp();
    const stop = new AbortController();
    const running = loop.run(stop.signal);
    await vi.waitFor(() => expect(lines).toEqual(["error Discovery failed: no space left"]));
    isBroken = false;
    await vi.waitFor(() => expect(lines.at(-1)).toBe("info Discovery works again"));
    stop.abort();
    await running;
  });
});
