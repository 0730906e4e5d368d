import { describe, expect, it } from "vitest";
import type { ConnectionRow } from "../connections/connection-tracks.ts";
import { defaultDiscovery, hostNamespace, managedOf, scanOf, socketOf, type TestScan } from "../discovery/discovery-scan.fixture.ts";
import { ServiceIdentities } from "../naming/service-identities.ts";
import { createServiceNamer, noTrafficNames } from "../naming/service-namer.ts";
import { createTrafficDirectory, type TrafficDirectory } from "./traffic-directory.ts";

function update(directory: TrafficDirectory, test: TestScan): void {
  const scan = scanOf(test);
  directory.update(
    scan,
    createServiceNamer({
      scan,
      config: defaultDiscovery,
      managed: managedOf([]),
      traffic: noTrafficNames,
      identities: new ServiceIdentities("vm-1"),
    }),
  );
}

/** Ids and names are equal in these scans. */
const idOf = (found: { service: string } | undefined): string | undefined => found?.service;

const postgres = { exe: "/usr/lib/postgresql/15/bin/postgres", script: null };

describe("createTrafficDirectory()", () => {
  it("names a server by its port, a backend by its server, and a client by its process", () => {
    const directory = createTrafficDirectory();
    update(directory, {
      processes: [
        { pid: 5, service: "postgres", ...postgres },
        { pid: 6, service: "postgres", parent: 5, ...postgres },
        { pid: 7, service: "shop" },
      ],
      listeners: [socketOf("0.0.0.0:5432", null, null, { owners: [5] })],
    });
    expect([idOf(directory.serviceOf(5, 5432)), idOf(directory.serviceOf(6, 5432)), idOf(directory.serviceOf(7, null))]).toEqual([
      "postgres",
      "postgres",
      "shop",
    ]);
    expect(idOf(directory.serviceOf(99, null))).toBeUndefined();
    expect([directory.headOf(7), directory.headOf(6)]).toEqual([
      { pid: 7, startTicks: 7 },
      { pid: 5, startTicks: 5 },
    ]);
    // A backend that started and exited between two scans.
    expect([idOf(directory.serviceOf(99, 5432)), idOf(directory.serviceOf(99, 5433))]).toEqual(["postgres", undefined]);
  });

  it("falls back to the kernel's process name", () => {
    const directory = createTrafficDirectory();
    const scan = scanOf({ processes: [{ pid: 9, service: "" }] });
    const entry = { pid: 9, startTicks: 9, execMark: 1, parentPid: 1, name: "kworker", networkNamespace: hostNamespace, sinceScan: 1 };
    const named = { ...scan, processOf: (pid: number) => (pid === 9 ? entry : undefined) };
    directory.update(
      named,
      createServiceNamer({
        scan: named,
        config: defaultDiscovery,
        managed: managedOf([]),
        traffic: noTrafficNames,
        identities: new ServiceIdentities("vm-1"),
      }),
    );
    expect(directory.serviceOf(9, null)?.name).toBe("kworker");
  });

  it("caches exited processes, and evicts the oldest", () => {
    const directory = createTrafficDirectory({ maxProcesses: 2 });
    const connectionOf = (pid: number) => socketOf(`10.0.0.1:${4_000 + pid}`, "10.0.0.2:80", "client", { owners: [pid] });
    update(directory, { processes: [{ pid: 5, service: "job" }], connections: [connectionOf(5)] });
    update(directory, { processes: [] });
    expect(idOf(directory.serviceOf(5, null))).toBe("job");
    expect(directory.pidsOf(({ name }) => name === "job")).toEqual([]);
    update(directory, {
      processes: [
        { pid: 6, service: "a" },
        { pid: 7, service: "b" },
      ],
      connections: [connectionOf(6), connectionOf(7)],
    });
    expect(idOf(directory.serviceOf(5, null))).toBeUndefined();
    expect(directory.pidsOf(({ name }) => name === "b")).toEqual([7]);
    expect([directory.servicesOf((pid) => pid === 7), directory.servicesOf((pid) => pid === 5)]).toEqual([
      [{ service: "b", name: "b" }],
      [],
    ]);
  });

  it("distinguishes processes that reuse a pid", () => {
    const directory = createTrafficDirectory();
    update(directory, { processes: [{ pid: 5, service: "old", start: 1 }] });
    expect(idOf(directory.serviceOf(5, null))).toBe("old");
    update(directory, { processes: [{ pid: 5, service: "new", start: 2 }] });
    expect([idOf(directory.serviceOf(5, null)), directory.headOf(5)?.startTicks]).toEqual(["new", 2]);
  });

  it("remembers callers whose connections no scan has seen, for two minutes", () => {
    const state = { nowS: 0 };
    const directory = createTrafficDirectory({ nowNs: () => BigInt(state.nowS) * 1_000_000_000n });
    update(directory, {
      processes: [{ pid: 5, service: "db" }],
      listeners: [socketOf("127.0.0.1:5432", null, null, { owners: [5] })],
    });
    const row = (service: string, more: object = {}) =>
      ({
        role: "client",
        service,
        netns: hostNamespace,
        client_address: "127.0.0.1",
        server_port: 5432,
        state: "closed",
        ...more,
      }) as ConnectionRow;
    const caller = () => directory.callerOf(5, 5432, "127.0.0.1");
    expect(caller()).toBeNull();
    directory.addCallers([row("api"), row("other", { state: "failed" }), row("other", { netns: 7 }), row("other", { role: "server" })]);
    expect(caller()).toBe("api");
    state.nowS = 100;
    directory.addCallers([row("worker")]);
    expect(caller()).toBeNull();
    state.nowS = 120;
    expect(caller()).toBe("worker");
  });

  describe("with start times of processes", () => {
    const at = (fromS: number, toS: number) => ({ fromNs: BigInt(fromS) * 1_000_000_000n, toNs: BigInt(toS) * 1_000_000_000n });
    /** Start times in seconds. */
    const directoryAt = (state: { nowS: number; running?: number | null }) =>
      createTrafficDirectory({
        times: { startedNs: (startTicks) => BigInt(startTicks) * 1_000_000_000n },
        nowNs: () => BigInt(state.nowS) * 1_000_000_000n,
        ...(state.running === undefined ? {} : { startTicksNow: () => state.running ?? null }),
      });
    const job = { processes: [{ pid: 5, service: "job", start: 10 }] };

    it("attributes only requests from before the scan that missed a process to that process", () => {
      const state = { nowS: 20 };
      const directory = directoryAt(state);
      update(directory, job);
      expect(idOf(directory.serviceOf(5, null, at(15, 20)))).toBe("job");
      state.nowS = 30;
      update(directory, { processes: [] });
      expect([idOf(directory.serviceOf(5, null, at(25, 35))), idOf(directory.serviceOf(5, null, at(30, 40)))]).toEqual(["job", undefined]);
      expect(directory.headOf(5, at(31, 40))).toBeUndefined();
    });

    it("separates requests of a former process from those of the next one with its pid", () => {
      const directory = directoryAt({ nowS: 20 });
      update(directory, job);
      idOf(directory.serviceOf(5, null));
      update(directory, { processes: [{ pid: 5, service: "other", start: 18 }] });
      expect([idOf(directory.serviceOf(5, null, at(10, 15))), idOf(directory.serviceOf(5, null, at(18, 25)))]).toEqual(["job", "other"]);
      expect(idOf(directory.serviceOf(5, null, at(10, 15)))).toBe("job");
    });

    it("does not name a process that started under a known pid since the scan", () => {
      const state: { nowS: number; running: number | null } = { nowS: 20, running: 10 };
      const directory = directoryAt(state);
      update(directory, job);
      expect(idOf(directory.serviceOf(5, null, at(15, 20)))).toBe("job");
      state.running = 22;
      expect([idOf(directory.serviceOf(5, null, at(22, 30))), idOf(directory.serviceOf(5, null, at(15, 21)))]).toEqual([undefined, "job"]);
      state.running = null;
      expect(idOf(directory.serviceOf(5, null, at(15, 25)))).toBe("job");
    });
  });

  it("finds the local service behind an address, in the caller's namespace first", () => {
    const directory = createTrafficDirectory();
    update(directory, {
      processes: [
        { pid: 5, service: "web" },
        { pid: 6, service: "cache" },
        { pid: 7, service: "inner", networkNamespace: 200 },
        { pid: 8, service: "caller" },
        { pid: 9, service: "neighbour", networkNamespace: 200 },
      ],
      listeners: [
        socketOf("0.0.0.0:80", null, null, { owners: [5] }),
        socketOf("127.0.0.1:6379", null, null, { owners: [6] }),
        socketOf("0.0.0.0:80", null, null, { owners: [7], networkNamespace: 200 }),
      ],
      more: { addressesIn: (namespace) => (namespace === hostNamespace ? ["10.0.0.1"] : ["172.17.0.2"]) },
    });
    for (const pid of [8, 9]) idOf(directory.serviceOf(pid, null));
    const at = (pid: number, address: string, port: number) => directory.listenerAt(pid, address, port);
    expect([at(8, "127.0.0.1", 80), at(8, "127.0.0.1", 6379), at(8, "10.0.0.1", 80), at(8, "172.17.0.2", 80)]).toEqual([
      "web",
      "cache",
      "web",
      "inner",
    ]);
    expect([at(9, "127.0.0.1", 80), at(9, "127.0.0.1", 6379), at(9, "10.0.0.1", 80)]).toEqual(["inner", null, "web"]);
    expect([at(8, "203.0.113.1", 80), at(8, "10.0.0.1", 81)]).toEqual([null, null]);
  });

  it("finds the service behind loopback for an unknown client when only one listens on the port", () => {
    const directory = createTrafficDirectory();
    update(directory, {
      processes: [
        { pid: 5, service: "web" },
        { pid: 6, service: "cache" },
        { pid: 7, service: "inner", networkNamespace: 200 },
      ],
      listeners: [
        socketOf("0.0.0.0:80", null, null, { owners: [5] }),
        socketOf("127.0.0.1:6379", null, null, { owners: [6] }),
        socketOf("0.0.0.0:80", null, null, { owners: [7], networkNamespace: 200 }),
      ],
    });
    const gone = 99;
    expect([6379, 80, 81].map((port) => directory.listenerAt(gone, "127.0.0.1", port))).toEqual(["cache", null, null]);
  });

  it("finds the local client when there is only one", () => {
    const directory = createTrafficDirectory();
    const connections = [
      socketOf("127.0.0.1:4001", "127.0.0.1:80", "client", { owners: [6] }),
      socketOf("127.0.0.1:4002", "127.0.0.1:80", "client", { owners: [6] }),
      socketOf("127.0.0.1:4003", "127.0.0.1:81", "client", { owners: [6] }),
      socketOf("127.0.0.1:4004", "127.0.0.1:81", "client", { owners: [7] }),
    ];
    const processes = [
      { pid: 5, service: "web" },
      { pid: 6, service: "shop" },
      { pid: 7, service: "cart" },
    ];
    update(directory, { processes, listeners: [socketOf("0.0.0.0:80", null, null, { owners: [5] })], connections });
    expect([directory.callerOf(5, 80, "127.0.0.1"), directory.callerOf(5, 81, "127.0.0.1"), directory.callerOf(5, 80, "10.0.0.9")]).toEqual(
      ["shop", null, null],
    );
  });
});
