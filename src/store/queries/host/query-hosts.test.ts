import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStoredHosts, type StoredHosts } from "../stored-hosts.fixture.ts";
import { seriesRange } from "./host-series.ts";
import { queryHosts, queryHostsNow } from "./query-hosts.ts";

const minuteMs = 60_000;
const gib = 1024 ** 3;
/** Aligned to ten minutes, so that roll-up buckets are predictable. */
const nowMs = Math.floor(Date.now() / 600_000) * 600_000;

let hosts: StoredHosts;

/** One sample every 15 s, oldest first. */
const samples = <T>(lastingMs: number, make: (atMs: number, index: number) => T): T[] =>
  Array.from({ length: lastingMs / 15_000 }, (_, index) => make(nowMs - lastingMs + index * 15_000, index));

beforeAll(async () => {
  hosts = await openStoredHosts();
  await hosts.add("web-1", {
    host: samples(10 * minuteMs, (atMs, index) => ({
      atMs,
      interval_ms: 15_000,
      cpu_count: 4,
      cpu_busy_ratio: index % 2 === 0 ? 0.2 : 0.6,
      load_1m: index,
      mem_total_bytes: 8 * gib,
      mem_available_bytes: 2 * gib,
      psi_memory_some_ratio: index < 20 ? null : 0.25,
      tcp_out_segments_per_s: 100,
      tcp_retransmits_per_s: 5,
      tcp_listen_overflows: index === 39 ? 3 : 0,
      oom_kills: index === 0 ? 1 : 0,
      uptime_s: 1000 + index,
    })),
    hostDisk: samples(10 * minuteMs, (atMs, index) => [
      { atMs, device: "vda", busy_ratio: 0.5, reads_per_s: 10, read_latency_ms: index % 2 === 0 ? 10 : 30, writes_per_s: 0 },
      {
        atMs,
        device: "vdb",
        busy_ratio: 0.1,
        reads_per_s: 0,
        writes_per_s: index % 2 === 0 ? 1 : 3,
        write_latency_ms: index % 2 === 0 ? 40 : 80,
      },
    ]).flat(),
    hostCpu: [
      { atMs: nowMs - 30_000, core: 0, busy_ratio: 1 },
      { atMs: nowMs - 15_000, core: 0, busy_ratio: 0.1 },
      { atMs: nowMs - 15_000, core: 1, busy_ratio: 0.9 },
    ],
    hostMount: [
      { atMs: nowMs - 30_000, mount: "/gone", used_bytes: 1, available_bytes: 1 },
      {
        atMs: nowMs - 15_000,
        mount: "/",
        device: "/dev/vda1",
        fs_type: "ext4",
        size_bytes: 110,
        used_bytes: 60,
        available_bytes: 40,
        inodes_total: 10,
        inodes_used: 5,
      },
      { atMs: nowMs - 15_000, mount: "/data", used_bytes: 95, available_bytes: 5, read_only: true },
    ],
    hostInterface: [
      { atMs: nowMs - 30_000, interface: "eth0", rx_bytes_per_s: 100, rx_drops: 2 },
      { atMs: nowMs - 15_000, interface: "eth0", rx_bytes_per_s: 300, rx_drops: 5, tx_errors: 1 },
    ],
    hostCgroup: [
      ...Array.from({ length: 40 }, (_, index) => ({ atMs: nowMs - 30_000, cgroup: `/quiet-${index}`, cpu_cores: 0.001 })),
      {
        atMs: nowMs - 30_000,
        cgroup: "/api",
        cpu_cores: 0.4,
        cpu_limit_cores: 0.5,
        throttled_ratio: 0.2,
        mem_used_bytes: 50,
        mem_limit_bytes: 100,
      },
      {
        atMs: nowMs - 15_000,
        cgroup: "/api",
        cpu_cores: 0.6,
        cpu_limit_cores: 0.5,
        throttled_ratio: 0.6,
        mem_used_bytes: 70,
        mem_limit_bytes: 100,
        oom_kills: 2,
      },
    ],
    hostProcess: [
      { atMs: nowMs - 30_000, pid: 1, name: "old" },
      ...Array.from({ length: 15 }, (_, index) => ({
        atMs: nowMs - 15_000,
        pid: 100 + index,
        name: `p${index}`,
        state: "S",
        cpu_cores: index / 10,
        rss_bytes: (15 - index) * 1000,
      })),
    ],
  });
  await hosts.add("db-1", { host: samples(10 * minuteMs, (atMs) => ({ atMs, interval_ms: 15_000, cpu_count: 2, cpu_busy_ratio: 0.9 })) });
  // A long history, for roll-ups.
  await hosts.add("old-1", {
    host: Array.from({ length: 24 * 12 }, (_, index) => ({
      atMs: nowMs - (index + 1) * 5 * minuteMs,
      cpu_busy_ratio: index === 100 ? 1 : 0.5,
      mem_total_bytes: 100,
      mem_available_bytes: 25,
      oom_kills: 1,
    })).reverse(),
    hostDisk: [{ atMs: nowMs - 600 * minuteMs, device: "vda", busy_ratio: 0.7 }],
  });
  await hosts.store.rollup();
});

afterAll(() => hosts[Symbol.asyncDispose]());

const query = async (agentId: string, sinceMs: number, maxPoints: number) => {
  const [facts] = await queryHosts(hosts.store, { agentIds: [agentId], nowMs, sinceMs, maxPoints });
  if (!facts) throw new Error("no facts");
  return facts;
};

describe("seriesRange()", () => {
  it.each([
    [5 * minuteMs, 60, { bucketMs: 15_000, points: 20, resolution: "raw" }],
    [5 * minuteMs, 10, { bucketMs: 30_000, points: 10, resolution: "raw" }],
    [1_000, 60, { bucketMs: 15_000, points: 1, resolution: "raw" }],
    [6 * 60 * minuteMs, 60, { bucketMs: 6 * minuteMs, points: 60, resolution: "raw" }],
    [24 * 60 * minuteMs, 60, { bucketMs: 24 * minuteMs, points: 60, resolution: "1m" }],
    [7 * 24 * 60 * minuteMs, 60, { bucketMs: 170 * minuteMs, points: 60, resolution: "10m" }],
    [5 * minuteMs, 0, { bucketMs: 5 * minuteMs, points: 1, resolution: "raw" }],
  ])("splits %d ms into at most %d buckets", (sinceMs, maxPoints, expected) => {
    expect(seriesRange(nowMs, sinceMs, maxPoints)).toMatchObject(expected);
  });
});

describe("queryHosts()", () => {
  it("returns the newest sample", async () => {
    const facts = await query("web-1", 5 * minuteMs, 10);
    expect(facts.sampledAt).toBe(new Date(nowMs - 15_000).toISOString());
    expect(facts.latest).toMatchObject({
      cpuCount: 4,
      cpuBusyRatio: 0.6,
      load1m: 39,
      memTotalBytes: 8 * gib,
      psiCpuSomeRatio: null,
      psiMemorySomeRatio: 0.25,
      uptimeS: 1039,
    });
  });

  it("returns series, their summary and totals of the window only", async () => {
    const { series, totals } = await query("web-1", 5 * minuteMs, 10);
    expect(series).toMatchObject({ startAt: new Date(nowMs - 5 * minuteMs).toISOString(), bucketMs: 30_000, resolution: "raw" });
    expect(series.cpuBusyRatio).toEqual({ min: 0.2, avg: 0.4, max: 0.6, points: Array.from({ length: 10 }, () => 0.4) });
    expect(series.load1m).toMatchObject({ min: 20, max: 39, avg: 29.5 });
    expect(series.memUsedRatio).toMatchObject({ min: 0.75, max: 0.75 });
    expect(series.diskBusyRatio).toMatchObject({ avg: 0.5, max: 0.5 });
    expect(series.psiCpuSomeRatio).toEqual({ min: null, avg: null, max: null, points: Array.from({ length: 10 }, () => null) });
    expect(totals).toEqual({
      samples: 20,
      oomKills: 0,
      tcpListenOverflows: 3,
      tcpListenDrops: 0,
      tcpRetransmits: 1500,
      tcpRetransmitRatio: 0.05,
    });
    expect((await query("web-1", 10 * minuteMs, 5)).totals).toMatchObject({ samples: 40, oomKills: 1 });
  });

  it("averages a column over the samples that have it", async () => {
    const { series } = await query("web-1", 10 * minuteMs, 4);
    expect(series.psiMemorySomeRatio).toEqual({ min: 0.25, avg: 0.25, max: 0.25, points: [null, null, 0.25, 0.25] });
  });

  it("omits the points when none are requested", async () => {
    const { series } = await query("web-1", 5 * minuteMs, 0);
    expect(series.cpuBusyRatio).toEqual({ min: 0.2, avg: 0.4, max: 0.6, points: [] });
  });

  it("returns devices, mounts, groups and processes, the notable ones first", async () => {
    const facts = await query("web-1", 5 * minuteMs, 0);
    expect(facts.cores.map((core) => core.core)).toEqual([1, 0]);
    expect(facts.mounts.map((mount) => [mount.mount, mount.usedRatio, mount.inodesUsedRatio, mount.readOnly])).toEqual([
      ["/data", 0.95, null, true],
      ["/", 0.6, 0.5, false],
    ]);
    expect(facts.disks).toMatchObject([
      { device: "vda", readLatencyMs: 20, maxReadLatencyMs: 30, writeLatencyMs: null, busyRatio: 0.5 },
      { device: "vdb", readLatencyMs: null, writeLatencyMs: 70, maxWriteLatencyMs: 80, writesPerS: 2 },
    ]);
    expect(facts.interfaces).toMatchObject([{ interface: "eth0", rxBytesPerS: 200, rxDrops: 7, txErrors: 1 }]);
    expect(facts.cgroups[0]).toMatchObject({
      cgroup: "/api",
      cpuCores: 0.5,
      throttledRatio: 0.4,
      maxThrottledRatio: 0.6,
      memUsedBytes: 70,
      oomKills: 2,
    });
    expect(facts.cgroups.length).toBeLessThanOrEqual(30);
    expect(facts.topByCpu.map((process) => process.name).slice(0, 2)).toEqual(["p14", "p13"]);
    expect(facts.topByRss.map((process) => process.name).slice(0, 2)).toEqual(["p0", "p1"]);
    expect(facts.topByCpu).toHaveLength(10);
  });

  it("separates hosts, and returns an entry for those without rows", async () => {
    const facts = await queryHosts(hosts.store, { agentIds: ["db-1", "nobody", "web-1"], nowMs, sinceMs: 5 * minuteMs, maxPoints: 5 });
    expect(facts.map((fact) => [fact.agentId, fact.series.cpuBusyRatio.avg, fact.totals.samples])).toEqual([
      ["db-1", 0.9, 20],
      ["nobody", null, 0],
      ["web-1", 0.4, 20],
    ]);
    expect(facts[1]).toMatchObject({ sampledAt: null, latest: null, mounts: [], topByCpu: [] });
    expect(await queryHosts(hosts.store, { agentIds: [], nowMs, sinceMs: 1, maxPoints: 1 })).toEqual([]);
  });

  it.each([
    [23 * 60 * minuteMs, "1m"],
    [3 * 24 * 60 * minuteMs, "10m"],
  ])("reads a roll-up over %d ms", async (sinceMs, resolution) => {
    const { series, totals } = await query("old-1", sinceMs, 48);
    expect(series.resolution).toBe(resolution);
    expect(series.cpuBusyRatio.max).toBe(1);
    expect(series.cpuBusyRatio.avg).toBeCloseTo(0.5, 2);
    expect(series.memUsedRatio).toMatchObject({ avg: 0.75, max: 0.75 });
    expect(series.diskBusyRatio.max).toBe(0.7);
    expect(totals.samples).toBeGreaterThan(270);
    expect(totals.oomKills).toBe(totals.samples);
  });
});

describe("queryHostsNow()", () => {
  it("returns one row per agent sampled in the last hour", async () => {
    const rows = await queryHostsNow(hosts.store, { nowMs });
    expect(rows.map((row) => row.agentId)).toEqual(["db-1", "old-1", "web-1"]);
    expect(rows[2]).toMatchObject({ cpuBusyRatio: 0.6, cpuCount: 4, memUsedRatio: 0.75, memTotalBytes: 8 * gib, load1m: 39 });
    expect(rows[0]?.memUsedRatio).toBeNull();
    expect(await queryHostsNow(hosts.store, { nowMs: nowMs + 2 * 3_600_000 })).toEqual([]);
  });

  it("returns the CPU use of the last minute once it has three samples", async () => {
    await hosts.add("young-1", { host: [{ atMs: nowMs - 15_000, cpu_busy_ratio: 0.97 }] });
    await hosts.add("young-2", { host: samples(2 * minuteMs, (atMs, index) => ({ atMs, cpu_busy_ratio: index < 4 ? 0 : index / 10 })) });
    const rows = new Map((await queryHostsNow(hosts.store, { nowMs })).map((row) => [row.agentId, row.cpuBusyMinuteRatio]));
    expect(rows.get("young-1")).toBeNull();
    expect(rows.get("young-2")).toBeCloseTo(0.55);
  });

  it("uses the sequence when a clock is set back, and the newer epoch when a store was recreated", async () => {
    await hosts.add("jumpy-1", {
      host: [
        { atMs: nowMs - minuteMs, cpu_busy_ratio: 0.1 },
        { atMs: nowMs - 30 * minuteMs, cpu_busy_ratio: 0.2 },
      ],
    });
    await hosts.add("fresh-1", { host: samples(2 * minuteMs, (atMs) => ({ atMs: atMs - minuteMs, cpu_busy_ratio: 0.1 })) }, "epoch-1");
    await hosts.add("fresh-1", { host: [{ atMs: nowMs - 1_000, cpu_busy_ratio: 0.3 }] }, "epoch-2");
    const rows = new Map((await queryHostsNow(hosts.store, { nowMs })).map((row) => [row.agentId, row.cpuBusyRatio]));
    expect(rows.get("jumpy-1")).toBe(0.2);
    expect(rows.get("fresh-1")).toBe(0.3);
  });
});
