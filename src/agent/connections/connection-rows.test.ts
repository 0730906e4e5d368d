import { describe, expect, it } from "vitest";
import { connection } from "../../store/signals/index.ts";
import type { ConnectionEvent, PeerConnections } from "../../traffic/index.ts";
import { defaultDiscovery, managedOf, scanOf, socketOf, type TestScan } from "../discovery/discovery-scan.fixture.ts";
import { ServiceIdentities } from "../naming/service-identities.ts";
import { createServiceNamer, noTrafficNames } from "../naming/service-namer.ts";
import { ConnectionRows, type TimedKernelBatch } from "./connection-rows.ts";

class Scans {
  nowMs = 0;
  /** Start times in seconds, for processes that started with the machine or later. */
  readonly rows = new ConnectionRows({
    clock: { monotonicMs: () => this.nowMs, wallMs: () => this.nowMs },
    processTimes: { startedNs: (startTicks) => (startTicks < 1_000 ? null : BigInt(startTicks) * 1_000_000n) },
  });

  at(nowMs: number, { kernel, ...test }: TestScan & { kernel?: TimedKernelBatch }, portMapping: Record<string, string> = {}) {
    const { scan, namer } = this.#scan(nowMs, test, portMapping);
    return this.rows.of(scan, namer, { at: nowMs * 1_000, mono_ms: nowMs }, kernel);
  }

  between(nowMs: number, test: TestScan, kernel: TimedKernelBatch) {
    const { scan, namer } = this.#scan(nowMs, test, {});
    return this.rows.between(scan, namer, { at: nowMs * 1_000, mono_ms: nowMs }, kernel);
  }

  #scan(nowMs: number, test: TestScan, portMapping: Record<string, string>) {
    this.nowMs = nowMs;
    const scan = scanOf(test);
    const config = { ...defaultDiscovery, names: { ...defaultDiscovery.names, portMapping } };
    return {
      scan,
      namer: createServiceNamer({
        scan,
        config,
        managed: managedOf([]),
        traffic: noTrafficNames,
        identities: new ServiceIdentities("vm-1"),
      }),
    };
  }
}

const processes = [
  { pid: 5, service: "api" },
  { pid: 6, service: "web", exe: "/usr/sbin/nginx" },
];
const minuteMs = 60_000;

describe("ConnectionRows", () => {
  it("writes a row for each local end, with its owner", () => {
    const listener = socketOf("0.0.0.0:80", null, null, { owners: [6] });
    const client = socketOf("127.0.0.1:40000", "127.0.0.1:80", "client", {
      owners: [5],
      bytesSent: 10,
      bytesReceived: 20,
      rttUs: 30,
      retransmits: 1,
    });
    const server = socketOf("127.0.0.1:80", "127.0.0.1:40000", "server", { owners: [6] });
    const rows = new Scans().at(1_000, { processes, listeners: [listener], connections: [client, server] });
    const tuple = {
      client_address: "127.0.0.1",
      client_port: 40000,
      server_address: "127.0.0.1",
      server_port: 80,
      protocol: "tcp",
      netns: 100,
    };
    const shared = {
      ...tuple,
      state: "open",
      attribution: "process_fd",
      first_seen: 1_000_000,
      last_seen: 1_000_000,
      connections: 1,
      at: 1_000_000,
      mono_ms: 1_000,
      refused: null,
      reset: null,
      timed_out: null,
    };
    expect(rows).toEqual([
      { ...shared, role: "client", service: "api", pid: 5, start_ticks: 5, bytes_sent: 10, bytes_received: 20, rtt_us: 30, retransmits: 1 },
      {
        ...shared,
        role: "server",
        service: "web",
        pid: 6,
        start_ticks: 6,
        bytes_sent: null,
        bytes_received: null,
        rtt_us: null,
        retransmits: null,
      },
    ]);
    expect(Object.keys(rows[0]!).sort()).toEqual([...Object.keys(connection.columns), "at", "mono_ms"].sort());
  });

  it("repeats a row every five minutes, and writes a last one when the connection is closed", () => {
    const scans = new Scans();
    const socket = socketOf("10.0.0.1:40000", "10.0.0.2:443", "client", { owners: [5], bytesSent: 1 });
    scans.at(0, { processes, connections: [socket] });
    const still = { processes, connections: [socket], more: { opened: [] } };
    expect(scans.at(4 * minuteMs, still)).toEqual([]);
    socket.bytesSent = 99;
    expect(scans.at(5 * minuteMs, still)).toMatchObject([
      { state: "open", bytes_sent: 99, first_seen: 0, last_seen: 5 * minuteMs * 1_000 },
    ]);
    expect(scans.at(6 * minuteMs, still)).toEqual([]);
    const gone = { processes, more: { closed: [socket] } };
    expect(scans.at(7 * minuteMs, gone)).toMatchObject([
      { state: "closed", first_seen: 0, last_seen: 6 * minuteMs * 1_000, service: "api" },
    ]);
    expect(scans.rows.size).toBe(0);
    expect(scans.at(20 * minuteMs, {})).toEqual([]);
  });

  it("picks up another service with the next repetition", () => {
    const scans = new Scans();
    const socket = socketOf("10.0.0.1:80", "10.0.0.2:50000", "server", { owners: [6] });
    const listeners = [80, 81].map((port) => socketOf(`0.0.0.0:${port}`, null, null, { owners: [6] }));
    expect(scans.at(0, { processes, listeners, connections: [socket] })).toMatchObject([{ service: "web" }]);
    const still = { processes, listeners, connections: [socket], more: { opened: [] } };
    expect(scans.at(5 * minuteMs, still, { 80: "shop", 81: "admin" })).toMatchObject([{ service: "web:80" }]);
  });

  it("reports a connection as open once the peer replies, and as failed if it never does", () => {
    const scans = new Scans();
    const [answered, ignored] = [1, 2].map((port) => socketOf("10.0.0.1:40000", `10.0.0.2:${port}`, "client", { owners: [5], state: 2 }));
    expect(scans.at(0, { processes, connections: [answered!, ignored!] })).toEqual([]);
    answered!.state = 1;
    const still = { processes, connections: [answered!, ignored!], more: { opened: [] } };
    expect(scans.at(30_000, still)).toMatchObject([{ state: "open", server_port: 1, first_seen: 0 }]);
    expect(scans.at(60_000, { processes, more: { closed: [answered!, ignored!] } })).toMatchObject([
      { state: "closed", server_port: 1 },
      { state: "failed", server_port: 2 },
    ]);
  });

  it("reports how the owner was attributed, and again when the owner is found later", () => {
    const scans = new Scans();
    const listeners = [
      socketOf("0.0.0.0:80", null, null, { owners: [6] }),
      socketOf("0.0.0.0:81", null, null),
      socketOf("0.0.0.0:82", null, null, { owners: [5, 6] }),
    ];
    const served = [80, 81, 82, 83].map((port) => socketOf(`10.0.0.1:${port}`, "10.0.0.2:50000", "server"));
    const called = socketOf("10.0.0.1:40000", "10.0.0.2:443", "client");
    const rows = scans.at(0, { processes, listeners, connections: [...served, called] }, { 81: "mapped" });
    expect(rows.map(({ service, pid, attribution }) => [service, pid, attribution])).toEqual([
      ["web", 6, "listening_socket"],
      ["port:vm-1/81", null, "config"],
      ["api", null, "listening_socket"],
      [null, null, null],
      [null, null, null],
    ]);
    called.owners.push(5);
    const found = scans.at(30_000, { processes, listeners, connections: [...served, called], more: { opened: [] } });
    expect(found).toMatchObject([{ service: "api", pid: 5, attribution: "process_fd", first_seen: 0 }]);
    expect(scans.at(60_000, { processes, listeners, connections: [...served, called], more: { opened: [] } })).toEqual([]);
  });

  it("counts connections above the limit in aggregated rows", () => {
    const scans = new Scans();
    const ends = {
      networkNamespace: 100,
      protocol: "tcp" as const,
      localAddress: "10.0.0.1",
      remoteAddress: "10.0.0.2",
      bytesSent: 5,
      bytesReceived: 6,
    };
    const folded = [
      { ...ends, role: "server" as const, localPort: 80, remotePort: 0, connections: 70 },
      { ...ends, role: "client" as const, localPort: 0, remotePort: 443, connections: 9 },
    ];
    const test = { processes, listeners: [socketOf("0.0.0.0:80", null, null, { owners: [6] })], more: { folded } };
    expect(scans.at(0, test)).toMatchObject([
      { role: "server", service: "web", client_port: 0, server_port: 80, connections: 70, attribution: "listening_socket", bytes_sent: 5 },
      { role: "client", service: null, client_port: 0, server_port: 443, server_address: "10.0.0.2", connections: 9 },
    ]);
    expect(scans.at(minuteMs, test)).toEqual([]);
    expect(scans.at(5 * minuteMs, test)).toHaveLength(2);
  });
});

describe("ConnectionRows with kernel events", () => {
  const listener = socketOf("0.0.0.0:80", null, null, { owners: [6] });
  const times = { wallUs: (ns: bigint): number => Number(ns / 1_000n), scanEndedNs: 0n };
  const seconds = (s: number): bigint => BigInt(s) * 1_000_000_000n;
  const ended = (more: Partial<ConnectionEvent> = {}): ConnectionEvent => ({
    kind: "closed",
    role: "client",
    pid: 5,
    networkNamespace: 100,
    localAddress: "10.0.0.1",
    localPort: 40_000,
    remoteAddress: "10.0.0.2",
    remotePort: 5432,
    startedNs: seconds(1),
    atNs: seconds(3),
    bytesSent: 100,
    bytesReceived: 200,
    rttUs: 30,
    retransmits: 1,
    reason: null,
    ...more,
  });
  const batch = (events: ConnectionEvent[], peers: PeerConnections[] = [], scanEndedNs = 0n): TimedKernelBatch => ({
    events,
    peers,
    times: { ...times, scanEndedNs },
  });
  const open = (more: object = {}) => socketOf("10.0.0.1:40000", "10.0.0.2:5432", "client", { owners: [5], bytesSent: 1, ...more });
  const world = { processes, listeners: [listener] };

  it("closes a scanned connection once, with its final counters", () => {
    const scans = new Scans();
    const socket = open();
    expect(scans.at(2_000, { ...world, connections: [socket], kernel: batch([]) })).toMatchObject([
      { state: "open", first_seen: 2_000_000 },
    ]);
    expect(scans.between(3_500, { ...world, connections: [socket] }, batch([ended()]))).toEqual([
      expect.objectContaining({
        ...{ state: "closed", service: "api", first_seen: 2_000_000, last_seen: 3_000_000, connections: 1, client_port: 40_000 },
        ...{ bytes_sent: 100, bytes_received: 200, rtt_us: 30, retransmits: 1, reset: 0 },
      }),
    ]);
    // The next scan adds nothing.
    expect(scans.at(32_000, { ...world, more: { closed: [socket] }, kernel: batch([]) })).toEqual([]);
  });

  it("counts a connection that closed during a scan once", () => {
    const scans = new Scans();
    scans.at(1_000, { ...world, kernel: batch([]) });
    const rows = scans.at(2_000, { ...world, connections: [open()], kernel: batch([ended({ reason: "reset" })]) });
    expect(rows).toMatchObject([
      { state: "open", first_seen: 2_000_000 },
      { state: "closed", first_seen: 2_000_000, reset: 1 },
    ]);
  });

  it("adds final counters to a connection that a scan has closed", () => {
    const scans = new Scans();
    const socket = open();
    scans.at(2_000, { ...world, connections: [socket], kernel: batch([]) });
    const [closed] = scans.at(32_000, { ...world, more: { closed: [socket] }, kernel: batch([]) });
    expect(closed).toMatchObject({ state: "closed", bytes_sent: 1 });
    const later = scans.between(33_000, world, batch([ended({ atNs: seconds(33) })]));
    expect(later).toEqual([
      {
        ...closed,
        at: 33_000_000,
        mono_ms: 33_000,
        bytes_sent: 100,
        bytes_received: 200,
        rtt_us: 30,
        retransmits: 1,
        refused: 0,
        reset: 0,
        timed_out: 0,
      },
    ]);
  });

  it("takes the owner from the kernel where a scan found none", () => {
    const scans = new Scans();
    // It closed before the scan looked for its process.
    const rows = scans.at(2_000, { ...world, connections: [open({ owners: [] })], kernel: batch([ended()]) });
    expect(rows).toMatchObject([
      { state: "open", service: null, attribution: null },
      { state: "closed", service: "api", pid: 5, attribution: "process_fd" },
    ]);
    const second = open({ owners: [] });
    scans.at(3_000, { ...world, connections: [second], kernel: batch([]) });
    expect(scans.at(4_000, { ...world, more: { closed: [second] }, kernel: batch([]) })).toMatchObject([
      { state: "closed", service: null },
    ]);
    expect(scans.between(5_000, world, batch([ended()]))).toMatchObject([{ state: "closed", service: "api", first_seen: 3_000_000 }]);
  });

  it("defers a scanned connection of a new process to the next scan", () => {
    const scans = new Scans();
    const socket = open({ owners: [] });
    const known = { ...world, processes: [...processes, { pid: 9, service: "job" }] };
    const rows = scans.at(2_000, { ...world, connections: [socket], kernel: batch([ended({ pid: 9 })]) });
    expect(rows).toMatchObject([{ state: "open", service: null }]);
    const later = scans.at(3_000, { ...known, more: { closed: [socket] }, kernel: batch([]) });
    expect(later).toMatchObject([{ state: "closed", service: "job", pid: 9, bytes_sent: 100, first_seen: 2_000_000 }]);
    // Once only: a process that has exited by then stays unknown.
    const other = open({ owners: [] });
    scans.at(4_000, { ...world, connections: [other], kernel: batch([ended({ pid: 10 })]) });
    expect(scans.at(5_000, { ...world, kernel: batch([]) })).toMatchObject([{ state: "closed", service: null, pid: 10 }]);
  });

  it("writes a row for a connection that no scan has seen, owned by the caller or the listener", () => {
    const scans = new Scans();
    scans.at(1_000, { ...world, kernel: batch([]) });
    const served = { role: "server", pid: 0, localPort: 80, remotePort: 50_000 } as const;
    const failed = ended({ kind: "failed", reason: "refused", localPort: 40_002 });
    expect(scans.between(4_000, world, batch([ended(), ended(served), failed]))).toMatchObject([
      { role: "client", state: "closed", service: "api", pid: 5, start_ticks: 5, attribution: "process_fd", first_seen: 1_000_000 },
      { role: "server", service: "web", attribution: "listening_socket", client_address: "10.0.0.2", client_port: 50_000, server_port: 80 },
      { state: "failed", refused: 1, bytes_sent: null },
    ]);
    // Older than the hooks, and not closed yet.
    expect(scans.between(4_000, world, batch([ended({ startedNs: 0n, localPort: 1 }), ended({ kind: "opened", localPort: 2 })]))).toEqual(
      [],
    );
  });

  it("defers events of unknown processes to the next scan", () => {
    const scans = new Scans();
    scans.at(1_000, { ...world, kernel: batch([]) });
    expect(scans.between(4_000, world, batch([ended({ pid: 9 })], [peer({ pid: 9, failed: 0 })]))).toEqual([]);
    const rows = scans.at(5_000, { ...world, processes: [...processes, { pid: 9, service: "job" }], kernel: batch([]) });
    expect(rows).toMatchObject([
      { service: "job", client_port: 40_000 },
      { service: "job", client_port: 0 },
    ]);
    // The process exited before the next scan: the connection still counts.
    scans.between(6_000, world, batch([ended({ pid: 10 })]));
    expect(scans.at(7_000, { ...world, kernel: batch([]) })).toMatchObject([{ service: null, pid: 10, attribution: null }]);
  });

  it("defers events of processes that started after the running scan listed processes", () => {
    const scans = new Scans();
    scans.at(1_000, { ...world, kernel: batch([]) });
    expect(scans.at(2_000, { ...world, kernel: batch([ended({ pid: 9 })], [peer({ pid: 9, failed: 0 })]) })).toEqual([]);
    const rows = scans.at(3_000, { ...world, processes: [...processes, { pid: 9, service: "job" }], kernel: batch([]) });
    expect(rows).toMatchObject([
      { service: "job", client_port: 40_000 },
      { service: "job", client_port: 0 },
    ]);
  });

  it("remembers the owners of exited processes for two minutes", () => {
    const scans = new Scans();
    const job = { ...world, processes: [...processes, { pid: 9, service: "job" }] };
    scans.at(1_000, { ...job, connections: [open({ owners: [9] })], kernel: batch([]) });
    scans.at(2_000, { ...world, kernel: batch([ended({ pid: 9 })], [], seconds(2)) });
    expect(scans.between(9_000, world, batch([], [peer({ pid: 9, failed: 0 })]))).toMatchObject([{ service: "job", pid: 9 }]);
    // The connection began after the scan that missed the process: another process has its pid.
    scans.between(9_500, world, batch([], [peer({ pid: 9, failed: 0, firstNs: seconds(3) })]));
    expect(scans.at(10_000, { ...world, kernel: batch([]) })).toMatchObject([{ service: null, pid: 9 }]);
    scans.between(300_000, world, batch([], [peer({ pid: 9, failed: 0 })]));
    expect(scans.at(301_000, { ...world, kernel: batch([]) })).toMatchObject([{ service: null, pid: 9 }]);
  });

  it("attributes a connection to the process that had the pid when it began", () => {
    const scans = new Scans();
    const job = { ...world, processes: [...processes, { pid: 9, service: "job" }] };
    scans.at(1_000, { ...job, connections: [open({ owners: [9] })], kernel: batch([]) });
    const next = { ...world, processes: [...processes, { pid: 9, service: "next", start: 2_500 }] };
    scans.at(3_000, { ...next, kernel: batch([], [], seconds(3)) });
    const [before, after] = [ended({ pid: 9, localPort: 1 }), ended({ pid: 9, localPort: 2, startedNs: seconds(3) })];
    expect(scans.between(4_000, next, batch([before, after])).map(({ service }) => service)).toEqual(["job", "next"]);
  });

  it("assigns distinct start times to aggregated rows", () => {
    const scans = new Scans();
    scans.at(1_000, { ...world, kernel: batch([]) });
    const rows = scans.between(4_000, world, batch([], [peer(), peer({ pid: 6, failed: 0, timedOut: 0 })]));
    expect(rows).toMatchObject([
      { service: "api", state: "closed", connections: 10, client_port: 0, server_port: 5432, bytes_sent: 1_000, reset: 2, timed_out: 1 },
      { service: "api", state: "failed", connections: 4, refused: 2, timed_out: 2, bytes_sent: null },
      { service: "web", state: "closed", connections: 10 },
    ]);
    expect(new Set(rows.map(({ first_seen }) => first_seen)).size).toBe(3);
  });

  function peer(more: Partial<PeerConnections> = {}): PeerConnections {
    return {
      ...{ role: "client", pid: 5, networkNamespace: 100, localAddress: "10.0.0.1", remoteAddress: "10.0.0.2", serverPort: 5432 },
      ...{
        connections: 10,
        failed: 4,
        refused: 2,
        reset: 2,
        timedOut: 3,
        bytesSent: 1_000,
        bytesReceived: 2_000,
        rttUs: 50,
        retransmits: 0,
      },
      ...{ firstNs: seconds(1), lastNs: seconds(3) },
      ...more,
    };
  }
});
