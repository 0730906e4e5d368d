import { describe, expect, it } from "vitest";
import { connection } from "../store/index.ts";
import { createConnectionRows } from "./connection-rows.ts";
import { defaultDiscovery, managedOf, scanOf, socketOf, type TestScan } from "./discovery-scan.fixture.ts";
import { createServiceNamer } from "./service-namer.ts";
import { noTrafficNames } from "./traffic-names.ts";

class Scans {
  nowMs = 0;
  readonly rows = createConnectionRows({ clock: { monotonicMs: () => this.nowMs, wallMs: () => this.nowMs } });

  at(nowMs: number, test: TestScan, portMapping: Record<string, string> = {}) {
    this.nowMs = nowMs;
    const scan = scanOf(test);
    const config = { ...defaultDiscovery, names: { ...defaultDiscovery.names, portMapping } };
    const namer = createServiceNamer({ scan, config, managed: managedOf([]), traffic: noTrafficNames });
    return this.rows.of(scan, namer, { at: nowMs * 1_000, mono_ms: nowMs });
  }
}

const processes = [
  { pid: 5, service: "api" },
  { pid: 6, service: "web", exe: "/usr/sbin/nginx" },
];
const minuteMs = 60_000;

describe("createConnectionRows()", () => {
  it("has a row for each end that is local, with its owner", () => {
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

  it("repeats a row every five minutes, and has a last one when the connection is gone", () => {
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

  it("takes up another name with the next repetition", () => {
    const scans = new Scans();
    const socket = socketOf("10.0.0.1:80", "10.0.0.2:50000", "server", { owners: [6] });
    const listeners = [socketOf("0.0.0.0:80", null, null, { owners: [6] })];
    expect(scans.at(0, { processes, listeners, connections: [socket] })).toMatchObject([{ service: "web" }]);
    const still = { processes, listeners, connections: [socket], more: { opened: [] } };
    expect(scans.at(5 * minuteMs, still, { 80: "shop" })).toMatchObject([{ service: "shop" }]);
  });

  it("waits for an answer before it says that a connection is open, and says when none came", () => {
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

  it("says how it knows the owner, and tells it when it is found later", () => {
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
      ["mapped", null, "config"],
      ["api", null, "listening_socket"],
      [null, null, null],
      [null, null, null],
    ]);
    called.owners.push(5);
    const found = scans.at(30_000, { processes, listeners, connections: [...served, called], more: { opened: [] } });
    expect(found).toMatchObject([{ service: "api", pid: 5, attribution: "process_fd", first_seen: 0 }]);
    expect(scans.at(60_000, { processes, listeners, connections: [...served, called], more: { opened: [] } })).toEqual([]);
  });

  it("has counted rows for what is above the limit", () => {
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
